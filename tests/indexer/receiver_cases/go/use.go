package shop

func first() {
	NewStore().Save()
}

func second(any Saver) {
	any.Save()
}

func third() {
	s, err := begin()
	s.Save()
	err.Save()
}

func fourth() {
	Shared.Close()
}

func fifth(all Items) {
	all[0].Go()
}

func sixth(r *Store) {
	r.Close()
	func(r *Item) {
		r.Go()
	}(nil)
	r.Save()
}
