import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.tree.ExpressionTree;
import com.sun.source.tree.IdentifierTree;
import com.sun.source.tree.MemberSelectTree;
import com.sun.source.tree.MethodInvocationTree;
import com.sun.source.tree.NewClassTree;
import com.sun.source.tree.Tree;
import com.sun.source.util.JavacTask;
import com.sun.source.util.TreePath;
import com.sun.source.util.TreePathScanner;
import com.sun.source.util.Trees;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import javax.lang.model.element.Element;
import javax.lang.model.element.ElementKind;
import javax.tools.ToolProvider;

/**
 * Prints the calls of a Java tree as javac resolves them, one JSON object a line: java Calls.java ROOT.
 *
 * Nothing is compiled to files, and no annotation processor runs. A class of anyone else is unknown: what needs it is
 * left out. A constructor stands for its class.
 */
class Calls {
    static final PrintStream OUT = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false);

    public static void main(String[] arguments) throws Exception {
        Path root = Path.of(arguments[0]).toRealPath();
        List<Path> paths;
        try (Stream<Path> all = Files.walk(root)) {
            paths = all.filter(path -> path.toString().endsWith(".java"))
                .filter(path -> !path.endsWith("module-info.java") && !path.endsWith("package-info.java"))
                .filter(path -> !path.toString().contains("/resources/")).toList();
        }
        var compiler = ToolProvider.getSystemJavaCompiler();
        var files = compiler.getStandardFileManager(diagnostic -> { }, null, null);
        var options = List.of("-proc:none", "-XDshould-stop.ifError=FLOW", "-Xmaxerrs", "1", "-nowarn");
        var task = (JavacTask) compiler.getTask(new java.io.StringWriter(), files, diagnostic -> { }, options, null,
            files.getJavaFileObjectsFromPaths(paths));
        Iterable<? extends CompilationUnitTree> units = task.parse();
        try {
            task.analyze();
        } catch (RuntimeException | Error unfinished) {
            System.err.println("javac gave up on part of the tree: " + unfinished);
        }
        for (CompilationUnitTree unit : units) {
            new Scanner(root, Trees.instance(task), unit).scan(unit, null);
        }
        OUT.flush();
    }

    static class Scanner extends TreePathScanner<Void, Void> {
        final Path root;
        final Trees trees;
        final CompilationUnitTree unit;

        Scanner(Path root, Trees trees, CompilationUnitTree unit) {
            this.root = root;
            this.trees = trees;
            this.unit = unit;
        }

        @Override
        public Void visitMethodInvocation(MethodInvocationTree node, Void nothing) {
            ExpressionTree called = node.getMethodSelect();
            boolean isPlain = called instanceof IdentifierTree;
            String name = isPlain ? ((IdentifierTree) called).getName().toString()
                : called instanceof MemberSelectTree selected ? selected.getIdentifier().toString() : "";
            if (!name.equals("super") && !name.equals("this")) {
                long at = isPlain ? start(unit, called) : end(called) - name.length();
                emit(trees.getElement(new TreePath(getCurrentPath(), called)), at, isPlain ? "plain" : "method");
            }
            return super.visitMethodInvocation(node, nothing);
        }

        @Override
        public Void visitNewClass(NewClassTree node, Void nothing) {
            emit(trees.getElement(new TreePath(getCurrentPath(), node.getIdentifier())), start(unit, node), "type");
            return super.visitNewClass(node, nothing);
        }

        long start(CompilationUnitTree file, Tree tree) {
            return trees.getSourcePositions().getStartPosition(file, tree);
        }

        long end(Tree tree) {
            return trees.getSourcePositions().getEndPosition(unit, tree);
        }

        void emit(Element element, long at, String form) {
            TreePath place = element == null ? null : trees.getPath(element);
            if (place == null || at < 0) {
                return;
            }
            if (element.getKind() == ElementKind.CONSTRUCTOR) {
                element = element.getEnclosingElement();
                place = trees.getPath(element);
            }
            CompilationUnitTree other = place.getCompilationUnit();
            long target = nameStart(other, place.getLeaf(), element.getSimpleName().toString());
            if (target < 0) {
                return;
            }
            OUT.printf("{\"path\": \"%s\", \"line\": %d, \"target\": \"%s\", \"at\": %d, \"name\": \"%s\", \"form\": \"%s\"}%n",
                relative(unit), unit.getLineMap().getLineNumber(at), relative(other),
                other.getLineMap().getLineNumber(target), element.getSimpleName(), form);
        }

        /** Where its name stands, behind annotations, modifiers and the type. */
        long nameStart(CompilationUnitTree file, Tree tree, String name) {
            try {
                String text = file.getSourceFile().getCharContent(true).toString();
                long from = start(file, tree);
                if (from < 0) {
                    return -1;
                }
                var found = java.util.regex.Pattern.compile("\\b" + java.util.regex.Pattern.quote(name) + "\\b\\s*[(<{]"
                    + "|\\b(class|interface|enum|record) +" + java.util.regex.Pattern.quote(name) + "\\b").matcher(text);
                return found.find((int) from) ? found.start() : from;
            } catch (java.io.IOException unreadable) {
                return -1;
            }
        }

        String relative(CompilationUnitTree file) {
            return root.relativize(Path.of(file.getSourceFile().toUri())).toString();
        }
    }
}
