# Print the calls of a Ruby tree as its own tests run them, one JSON object a line:
#
#     ruby calls.rb ROOT TEST_FILE …
#
# Each test file is loaded, and every call between two files of the tree is noted once, with the line that makes it and
# the line that defines what is called. A call that leads outside of the tree is noted as such. A call counts if its line
# says the name, so that callbacks do not. What the tests do not run is not known.
require "json"
require "set"

ROOT = File.realpath(ARGV.shift) + "/"
SEEN = Set.new
LINES = Hash.new { |known, path| known[path] = File.readlines(path) rescue [] }
trace = TracePoint.new(:call) do |called|
  place = caller_locations(2, 1)&.first
  source = place&.absolute_path
  next unless source&.start_with?(ROOT)
  target = called.path&.start_with?(ROOT) ? called.path : ""
  SEEN << [source, place.lineno, target, called.lineno, called.method_id.to_s, called.callee_id.to_s]
end
# Of what is written in C the place is that of the caller.
outside = TracePoint.new(:c_call) do |called|
  name = called.callee_id.to_s
  SEEN << [called.path, called.lineno, "", 0, name, name] if called.path&.start_with?(ROOT)
end
at_exit do
  trace.disable
  outside.disable
  SEEN.each do |source, line, target, at, name, written|
    text = LINES[source][line - 1].to_s
    said = name == "initialize" ? text.match?(/\bnew\b/) : text.match?(/(?<![\w@:])#{Regexp.escape(written)}(?!\w)/)
    next unless said
    form = text.match?(/[.&]#{Regexp.escape(written)}(?!\w)/) ? "method" : "plain"
    form = "type" if name == "initialize"
    form = "outside" if target.empty?
    REPORT.puts JSON.generate(path: source.delete_prefix(ROOT), line: line, target: target.delete_prefix(ROOT), at: at,
                              name: name, form: form)
  end
end
REPORT = $stdout.dup
$stdout.reopen($stderr)  # the tests print too
trace.enable
outside.enable
ARGV.each { |file| load File.expand_path(file) }
