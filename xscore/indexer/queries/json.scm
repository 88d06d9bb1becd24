(document (object (pair key: (string) @name) @section))
(document (array (_) @section))
(document (object (pair value: (object (pair key: (string) @name) @subsection))))
(comment) @lead
