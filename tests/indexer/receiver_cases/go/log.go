package shop

func (l *Log) Write() {
	l.n++
}

func (i *Item) Go() {
	i.n++
}

func (s *Store) Save() error {
	s.log.Write()
	for _, item := range s.items {
		item.Go()
	}
	return s.Close()
}
