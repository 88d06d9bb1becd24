((call target: (identifier) @_d (arguments . (alias) @name) (do_block) @body) @class
  (#any-of? @_d "defmodule" "defprotocol" "defimpl"))
((call target: (identifier) @_d (arguments . [(call target: (identifier) @name) (identifier) @name
  (binary_operator left: (call target: (identifier) @name))])) @function
  (#any-of? @_d "def" "defp" "defmacro" "defmacrop" "defguard" "defdelegate"))
((call target: (identifier) @_t (arguments . (string) @name) (do_block) @body) @test (#any-of? @_t "test" "property"))
((call target: (identifier) @_t (arguments . (string) @name) (do_block) @body) @suite (#eq? @_t "describe"))
(comment) @lead
((unary_operator operand: (call target: (identifier) @_a)) @lead (#any-of? @_a "doc" "moduledoc" "spec"))
(source (_) @statement)
(call target: [(identifier) (dot)] @call)
((call target: (identifier) @_i (arguments . (alias) @import.module)) (#any-of? @_i "alias" "import" "use" "require"))
