; Entities. A decorated definition is captured twice; the wider span wins.
(function_definition
  name: (identifier) @name
  body: (block) @body) @function
(decorated_definition
  definition: (function_definition
    name: (identifier) @name
    body: (block) @body)) @function
(decorated_definition
  (decorator [(identifier) @_mark (attribute attribute: (identifier) @_mark)])
  definition: (function_definition
    name: (identifier) @name
    body: (block) @body) @overload
  (#eq? @_mark "overload"))
(class_definition
  name: (identifier) @name
  body: (block) @body) @class
(decorated_definition
  definition: (class_definition
    name: (identifier) @name
    body: (block) @body)) @class

; Comments and such that belong to the entity right below them.
(comment) @lead

; First string of a body or of the file.
(module . (comment)* . (expression_statement . (string) @doc .))
(function_definition body: (block . (expression_statement . (string) @doc .)))
(class_definition body: (block . (expression_statement . (string) @doc .)))

; Names that module-level code gives to values.
(module (expression_statement (assignment left: [(identifier) @constant (pattern_list (identifier) @constant)])))
(module (_) @statement)

; Uses.
(call function: (identifier) @call)
(call function: (attribute) @call)
(decorator (identifier) @call)
(decorator (attribute) @call)
(class_definition superclasses: (argument_list (identifier) @base))
(class_definition superclasses: (argument_list (attribute) @base))
(class_definition superclasses: (argument_list (subscript value: [(identifier) (attribute)] @base)))

; Imports: module, name, alias.
(import_statement name: (dotted_name) @import.module)
(import_statement name: (aliased_import name: (dotted_name) @import.module alias: (identifier) @import.alias))
(import_from_statement module_name: (_) @import.module name: (dotted_name) @import.name)
(import_from_statement module_name: (_) @import.module
  name: (aliased_import name: (dotted_name) @import.name alias: (identifier) @import.alias))
(import_from_statement module_name: (_) @import.module (wildcard_import) @import.name)

; Branches, for the cyclomatic count.
[
  (if_statement) (elif_clause) (for_statement) (while_statement) (except_clause)
  (conditional_expression) (boolean_operator) (case_clause) (if_clause) (for_in_clause)
] @branch

; What variables are given, and what functions give.
(assignment left: [(identifier) (attribute)] @variable type: (_) @variable.type)
(assignment left: [(identifier) (attribute)] @variable !type right: (_) @variable.value)
(typed_parameter . (identifier) @variable type: (_) @variable.type)
(typed_default_parameter name: (identifier) @variable type: (_) @variable.type)
(default_parameter name: (identifier) @variable value: (call) @variable.value)
(parameters (identifier) @variable @parameter)
(named_expression name: (identifier) @variable value: (_) @variable.value)
(as_pattern . (_) @variable.value alias: (as_pattern_target (identifier) @variable))
(for_statement left: (identifier) @variable right: (_) @variable.each)
(for_in_clause left: (identifier) @variable right: (_) @variable.each)
(function_definition return_type: (_) @result)
(return_statement [(call) (identifier) (attribute) (await) (conditional_expression) (boolean_operator)] @returned)
(yield [(call) (identifier) (attribute)] @returned)
(lambda) @closure
(lambda_parameters (identifier) @variable)
(class_definition body: (block (expression_statement
  (assignment left: (identifier) @variable @member type: (_)? @variable.type right: (_)? @variable.value))))

; What a test of a type says of a name within a branch.
(if_statement condition: (_) @condition consequence: (_) @narrowed)
(elif_clause condition: (_) @condition consequence: (_) @narrowed)

((for_statement left: (pattern_list . (identifier) . (identifier) @variable .)
  right: (call function: (attribute attribute: (identifier) @_pairs)) @variable.each)
  (#eq? @_pairs "items"))
((for_in_clause left: (pattern_list . (identifier) . (identifier) @variable .)
  right: (call function: (attribute attribute: (identifier) @_pairs)) @variable.each)
  (#eq? @_pairs "items"))
((for_statement left: (pattern_list . (identifier) . (identifier) @variable .)
  right: (call function: (identifier) @_pairs arguments: (argument_list . (_) @variable.each)))
  (#eq? @_pairs "enumerate"))

; What a function defines within itself: a class is known by its base, and hides others of its name as a function does.
(class_definition name: (identifier) @variable
  superclasses: (argument_list . [(identifier) (attribute)] @variable.value)) @inner
(class_definition name: (identifier) @variable !superclasses) @inner
(function_definition name: (identifier) @variable) @inner
