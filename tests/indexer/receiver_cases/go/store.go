package shop

type base struct {
	name string
}

func (b *base) Close() error {
	return nil
}

type Store struct {
	base
	log   *Log
	items []*Item
}

type Log struct {
	n int
}

type Item struct {
	n int
}

type Saver interface {
	Save() error
}

type Items []*Item

var Shared = NewStore()

func NewStore() *Store {
	return &Store{}
}

func begin() (*Store, error) {
	return NewStore(), nil
}
