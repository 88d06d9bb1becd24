# Print the calls of a Ruby tree as its own tests run them, one JSON object a line:
#
#     ruby calls.rb ROOT TEST_FILE …
#
# Each test file is loaded, and every call between two files of the tree is noted once, with the line that makes it and
# the line that defines what is called. A call counts if its line says the name, so that callbacks do not. What the
# tests do not run is not known.
require "json"
require "set"

ROOT = File.realpath(ARGV.shift) + "/"
SEEN = Set.new
LINES = Hash.new { |known, path| known[path] = File.readlines(path) rescue [] }
trace = TracePoint.new(:call) do |called|
  target = called.path
  next unless target.start_with?(ROOT)
  place = caller_locations(2, 1)&.first
  source = place&.absolute_path
  next unless source&.start_with?(ROOT)
  name = called.method_id.to_s
  key = [source, place.lineno, target, called.lineno, name]
  SEEN << key unless SEEN.include?(key)
end
at_exit do
  trace.disable
  SEEN.each do |source, line, target, at, name|
    text = LINES[source][line - 1].to_s
    said = name == "initialize" ? text.match?(/\bnew\b/) : text.match?(/(?<![\w@:])#{Regexp.escape(name)}(?!\w)/)
    next unless said
    form = text.match?(/[.&]#{Regexp.escape(name)}(?!\w)/) ? "method" : "plain"
    form = "type" if name == "initialize"
    REPORT.puts JSON.generate(path: source.delete_prefix(ROOT), line: line, target: target.delete_prefix(ROOT), at: at,
                              name: name, form: form)
  end
end
REPORT = $stdout.dup
$stdout.reopen($stderr)  # the tests print too
trace.enable
ARGV.each { |file| load File.expand_path(file) }
