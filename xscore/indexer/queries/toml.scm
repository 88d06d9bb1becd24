(document (pair . (_) @name) @section)
(document (table . (_) @name) @section)
(document (table_array_element . (_) @name) @section)
(comment) @lead
