using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text.Json;
using Microsoft.CodeAnalysis;
using Microsoft.CodeAnalysis.CSharp;
using Microsoft.CodeAnalysis.CSharp.Syntax;

/// <summary>
/// Prints the calls of a C# tree as Roslyn resolves them, one JSON object a line: Calls ROOT FRAMEWORK.
///
/// All files are one program, and only the framework in the folder FRAMEWORK is there for it. A constructor stands for
/// its class. What needs a class of anyone else is `unknown`: its name may then mean anything.
/// </summary>
static class Calls
{
    static readonly string[] Constants = { "NETSTANDARD2_0", "NETSTANDARD", "NETCOREAPP", "NETCOREAPP3_1", "TRACE" };
    static string root;

    static void Main(string[] arguments)
    {
        root = Path.GetFullPath(arguments[0]).TrimEnd('/') + "/";
        var options = new CSharpParseOptions(LanguageVersion.Preview, preprocessorSymbols: Constants);
        var trees = Directory.EnumerateFiles(root, "*.cs", SearchOption.AllDirectories)
            .Where(path => !path.Contains("/obj/") && !path.Contains("/bin/"))
            .OrderBy(path => path, StringComparer.Ordinal)
            .Select(path => CSharpSyntaxTree.ParseText(File.ReadAllText(path), options, path)).ToList();
        var framework = Directory.EnumerateFiles(arguments[1], "*.dll").Where(IsManaged)
            .Select(path => MetadataReference.CreateFromFile(path));
        var settings = new CSharpCompilationOptions(OutputKind.DynamicallyLinkedLibrary, allowUnsafe: true);
        var program = CSharpCompilation.Create("program", trees, framework, settings);
        using var output = new StreamWriter(Console.OpenStandardOutput());
        foreach (var tree in trees)
        {
            var model = program.GetSemanticModel(tree, ignoreAccessibility: true);
            foreach (var node in tree.GetRoot().DescendantNodes())
            {
                if (node is InvocationExpressionSyntax call)
                {
                    EmitCall(output, model, call);
                }
                else if (node is ObjectCreationExpressionSyntax creation)
                {
                    var type = model.GetTypeInfo(creation).Type;
                    Emit(output, creation.Type, type?.OriginalDefinition, LastName(creation.Type), "type");
                    var constructor = model.GetSymbolInfo(creation).Symbol?.OriginalDefinition;
                    if (constructor != null && !constructor.IsImplicitlyDeclared)
                    {
                        Emit(output, creation.Type, constructor, LastName(creation.Type), "type");
                    }
                }
            }
        }
    }

    static bool IsManaged(string path)
    {
        try
        {
            System.Reflection.AssemblyName.GetAssemblyName(path);
            return true;
        }
        catch (BadImageFormatException)
        {
            return false;
        }
    }

    static void EmitCall(TextWriter output, SemanticModel model, InvocationExpressionSyntax call)
    {
        var name = NameOf(call.Expression);
        if (name == null || name.Identifier.Text == "nameof")
        {
            return;
        }
        var info = model.GetSymbolInfo(call);
        var symbol = info.Symbol;
        if (symbol == null && info.CandidateSymbols.Select(one => one.ContainingType).Distinct().Count() == 1)
        {
            symbol = info.CandidateSymbols[0]; // overloads of one class count as one
        }
        var form = call.Expression is SimpleNameSyntax ? "plain" : "method";
        Emit(output, name, Defined(symbol), name.Identifier.Text, symbol == null ? "unknown" : form);
    }

    static ISymbol Defined(ISymbol symbol)
    {
        if (symbol is IMethodSymbol method)
        {
            method = (method.ReducedFrom ?? method).OriginalDefinition;
            return method.MethodKind == MethodKind.DelegateInvoke ? null : method.PartialImplementationPart ?? method;
        }
        return null;
    }

    static SimpleNameSyntax NameOf(ExpressionSyntax called)
    {
        switch (called)
        {
            case MemberAccessExpressionSyntax member: return member.Name;
            case MemberBindingExpressionSyntax member: return member.Name;
            case ParenthesizedExpressionSyntax inner: return NameOf(inner.Expression);
            default: return called as SimpleNameSyntax;
        }
    }

    static string LastName(TypeSyntax type)
    {
        switch (type)
        {
            case QualifiedNameSyntax qualified: return qualified.Right.Identifier.Text;
            case SimpleNameSyntax simple: return simple.Identifier.Text;
            default: return "";
        }
    }

    static void Emit(TextWriter output, SyntaxNode at, ISymbol called, string name, string form)
    {
        // A class of several parts may be meant by any of them.
        var places = called?.DeclaringSyntaxReferences.AsEnumerable() ?? Enumerable.Empty<SyntaxReference>();
        var isOutside = called == null || called.Kind == SymbolKind.ErrorType;
        foreach (var place in isOutside ? Enumerable.Empty<SyntaxReference>() : places)
        {
            var defined = IdentifierOf(place.GetSyntax());
            Write(output, at, defined.SyntaxTree.FilePath, LineOf(defined.GetLocation()), defined.Text, form);
        }
        if (form == "unknown" || called?.Kind == SymbolKind.ErrorType)
        {
            Write(output, at, root, 0, name, "unknown");
        }
    }

    static SyntaxToken IdentifierOf(SyntaxNode node)
    {
        switch (node)
        {
            case MethodDeclarationSyntax method: return method.Identifier;
            case ConstructorDeclarationSyntax method: return method.Identifier;
            case LocalFunctionStatementSyntax function: return function.Identifier;
            case BaseTypeDeclarationSyntax type: return type.Identifier;
            default: return node.GetFirstToken();
        }
    }

    static int LineOf(Location location) => location.GetLineSpan().StartLinePosition.Line + 1;

    static void Write(TextWriter output, SyntaxNode at, string target, int line, string name, string form)
    {
        output.WriteLine(JsonSerializer.Serialize(new Dictionary<string, object>
        {
            ["path"] = at.SyntaxTree.FilePath.Substring(root.Length),
            ["line"] = LineOf(at.GetLocation()),
            ["target"] = target.StartsWith(root) ? target.Substring(root.Length) : "",
            ["at"] = line,
            ["name"] = name,
            ["form"] = form,
        }));
    }
}
