package shop

import "testing"

func TestSave(t *testing.T) {
	r := NewStore()
	t.Run("saves", func(t *testing.T) {
		r.Save()
	})
}
