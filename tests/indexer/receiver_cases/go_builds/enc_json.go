//go:build !binary_log

package log

import "example.com/log/json"

var enc = json.JSON{}
