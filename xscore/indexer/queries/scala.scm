(class_definition name: (_) @name) @class
(class_definition name: (_) @name body: (_) @body) @class
(object_definition name: (_) @name) @class
(object_definition name: (_) @name body: (_) @body) @class
(package_object name: (_) @name body: (_) @body) @class
(trait_definition name: (_) @name) @class
(trait_definition name: (_) @name body: (_) @body) @class
(enum_definition name: (_) @name body: (_) @body) @class
(function_definition name: (_) @name body: (_) @body) @function
(extends_clause type: (type_identifier) @base)
[(comment) (block_comment)] @lead
(compilation_unit (_) @statement)
(call_expression function: [(identifier) (field_expression)] @call arguments: (arguments) @arguments)
(call_expression function: [(identifier) (field_expression)] @call arguments: [(block) (case_block) (colon_argument)])
(import_declaration path: (_) @import.module)
[(if_expression) (case_clause) (for_expression) (while_expression) (catch_clause)] @branch
