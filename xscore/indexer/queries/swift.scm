(class_declaration declaration_kind: ["class" "struct" "enum" "actor"] name: (_) @name body: (_) @body) @class
(class_declaration declaration_kind: "extension" name: (_) @owner body: (_) @body) @extension
(protocol_declaration name: (_) @name body: (_) @body) @class
(function_declaration name: (_) @name body: (_) @body) @function
(init_declaration "init" @name body: (_) @body) @function
(inheritance_specifier inherits_from: (_) @base)
[(comment) (multiline_comment)] @lead
(source_file (_) @statement)
(call_expression . [(simple_identifier) (navigation_expression)] @call)
(import_declaration (identifier) @import.module)
[(if_statement) (guard_statement) (for_statement) (while_statement) (switch_entry) (catch_block) (ternary_expression)] @branch
