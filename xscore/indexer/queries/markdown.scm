(section (atx_heading) @section)
(section (setext_heading) @section)
