(function_declaration name: (_) @name body: (_) @body) @function
(function_declaration name: (_) @name !body) @function
(assignment_statement (variable_list . name: (_) @name) (expression_list . value: (function_definition body: (_) @body)))  @function
(field name: (identifier) @name value: (function_definition body: (_) @body)) @function
; busted: `describe("…", function() it("…", function() … end) end)`.
((function_call name: (identifier) @_t arguments: (arguments . (string) @name (function_definition body: (_) @body))) @test
  (#any-of? @_t "it" "test" "spec"))
((function_call name: (identifier) @_t arguments: (arguments . (string) @name (function_definition body: (_) @body))) @suite
  (#any-of? @_t "describe" "context" "insulate"))
(comment) @lead
(chunk (variable_declaration (assignment_statement (variable_list name: (identifier) @constant))))
(chunk (_) @statement)
(function_call name: [(identifier) (dot_index_expression) (method_index_expression)] @call)
((function_call name: (identifier) @_require arguments: (arguments . (string) @import.module)) (#eq? @_require "require"))
[(if_statement) (elseif_statement) (for_statement) (while_statement) (repeat_statement)] @branch
["and" "or"] @branch
