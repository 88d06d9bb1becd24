// +build binary_log

package log

import "example.com/log/cbor"

var enc = cbor.CBOR{}

func own() {
	enc.Append(1)
}
