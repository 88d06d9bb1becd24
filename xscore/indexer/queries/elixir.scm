((call target: (identifier) @_d (arguments . (alias) @name .) (do_block) @body) @class
  (#any-of? @_d "defmodule" "defprotocol" "defimpl"))
((call target: (identifier) @_d (arguments . (alias) @owner (keywords (pair value: (alias) @name))) (do_block) @body) @class
  (#eq? @_d "defimpl"))
; A function's head, with or without a guard; its body is a block, or `do: …` on its row, or missing.
((call target: (identifier) @_d (arguments . [(call target: (identifier) @name) (identifier) @name
  (binary_operator left: (call target: (identifier) @name)) (binary_operator left: (identifier) @name operator: "when")]
  ) (do_block)? @body) @function
  (#any-of? @_d "def" "defp" "defmacro" "defmacrop" "defguard" "defguardp" "defdelegate"))
((call target: (identifier) @_d (arguments . [(call target: (identifier) @name) (identifier) @name
  (binary_operator left: (call target: (identifier) @name)) (binary_operator left: (identifier) @name operator: "when")]
  . (keywords) @body)) @function
  (#any-of? @_d "def" "defp" "defmacro" "defmacrop"))
((call target: (identifier) @_t (arguments . (string) @name) (do_block) @body) @test (#any-of? @_t "test" "property"))
((call target: (identifier) @_t (arguments . (string) @name) (do_block) @body) @suite (#eq? @_t "describe"))
(comment) @lead
((unary_operator operand: (call target: (identifier) @_a)) @lead
  (#any-of? @_a "doc" "spec" "impl" "deprecated" "since" "tag" "dialyzer"))
((do_block (unary_operator operand: (call target: (identifier) @_a (arguments . (string (quoted_content) @doc))))) @documented
  (#eq? @_a "moduledoc"))
(source (_) @statement)
((unary_operator operand: (call target: (identifier) @_a)) @notation
  (#any-of? @_a "spec" "type" "typep" "opaque" "callback" "macrocallback"))

; `Alias.function(…)` names its module; the words that declare or branch are no calls.
((call target: (identifier) @call) (#not-match? @call
  "^(def(p|macrop?|guardp?|delegate|module|protocol|impl|struct|exception)?|alias|import|use|require|test|describe|if|unless|case|cond|with|for|quote|unquote|receive|try|doc|spec|impl|moduledoc|typep?|opaque|typedoc|callback|behaviour|tag)$"))
(call target: (dot left: (alias) @call.module right: (identifier) @call))
(call target: (dot left: (identifier) right: (identifier)) @call)
; A call in a pipeline may be without brackets: `conn |> halt`.
(binary_operator operator: "|>" right: (identifier) @call)
((call target: (identifier) @_i (arguments . (alias) @import.module .)) (#any-of? @_i "alias" "require"))
((call target: (identifier) @_i (arguments . (alias) @import.module
  (keywords (pair key: (keyword) @_k value: (alias) @import.alias)))) (#any-of? @_i "alias" "require") (#match? @_k "^as:"))
((call target: (identifier) @_i (arguments . (dot left: (alias) @import.module right: (tuple (alias) @import.name))))
  (#eq? @_i "alias"))
; What a module imports, uses or promises to behave like gives it functions, as a base does.
((call target: (identifier) @_i (arguments . (alias) @base)) (#any-of? @_i "import" "use"))
((unary_operator operand: (call target: (identifier) @_a (arguments . (alias) @base))) (#eq? @_a "behaviour"))
[(stab_clause)] @branch
((call target: (identifier) @_b) @branch (#any-of? @_b "if" "unless"))
["&&" "||" "and" "or"] @branch
