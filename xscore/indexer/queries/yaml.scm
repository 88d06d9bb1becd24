(document (block_node (block_mapping (block_mapping_pair key: (_) @name) @section)))
(document (block_node (block_sequence (block_sequence_item (_) @name) @section)))
(document (block_node (block_mapping (block_mapping_pair key: (_) value: (block_node (block_mapping
  (block_mapping_pair key: (_) @name) @subsection))))))
(comment) @lead
