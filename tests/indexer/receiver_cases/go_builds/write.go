package log

func Write() {
	enc.Append(1).Append(2).Append(3).Append(4).Append(5).Append(6).Append(7).Append(8)
}

type Event struct{}

func (e *Event) Str(s string) *Event {
	return e
}

func (e *Event) Msg(s string) {
}

func Log(e *Event) {
	e.Str("").Str("").Str("").Str("").Str("").Str("").Str("").Str("").Msg("")
}
