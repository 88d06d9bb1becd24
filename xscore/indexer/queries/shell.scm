(function_definition name: (_) @name body: (_) @body) @function
(comment) @lead
(program (variable_assignment name: (_) @constant))
(program (_) @statement)
(command name: (command_name (word) @call))
((command name: (command_name (word) @_source) argument: [(word) (string)] @import.module)
  (#any-of? @_source "." "source"))
[(if_statement) (elif_clause) (for_statement) (while_statement) (case_item)] @branch
["&&" "||"] @branch
