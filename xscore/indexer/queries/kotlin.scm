(class_declaration name: (_) @name) @class
(class_declaration name: (_) @name (class_body) @body) @class
(class_declaration name: (_) @name (enum_class_body) @body) @class
(object_declaration name: (_) @name) @class
(object_declaration name: (_) @name (class_body) @body) @class
(function_declaration name: (_) @name (function_body) @body) @function
(secondary_constructor "constructor" @name (block) @body) @function
(type_alias type: (_) @name) @alias

[(line_comment) (block_comment)] @lead
(source_file (property_declaration (variable_declaration (identifier) @constant)))
(source_file (_) @statement)
(call_expression . [(identifier) (navigation_expression)] @call (value_arguments) @arguments .)
(call_expression . [(identifier) (navigation_expression)] @call (annotated_lambda))
; A lambda behind the brackets is one more argument: f(1) { … }.
(call_expression . (call_expression . [(identifier) (navigation_expression)] @call) (annotated_lambda))
(import (qualified_identifier) @import.module)
[(if_expression) (when_entry) (for_statement) (while_statement) (do_while_statement) (catch_block)] @branch
["&&" "||"] @branch
