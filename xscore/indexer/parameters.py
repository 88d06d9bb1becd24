"""Count the parameters in a signature, by which overloads of one name differ.

Pure text, read once from the left.
"""


def parameter_count(signature: str, name: str) -> str:
    """Return how many parameters a signature has; empty: callers may leave some out, or give
    more."""
    if "params " in signature:
        return ""
    depth = 0
    count = 1
    has_any = False
    for char in signature[_after_bracket(signature, name) :]:
        if char in "([{<":
            depth += 1
        elif char in ")]}>" and depth == 0:
            break
        elif char in ")]}>":
            depth -= 1
        elif char == "," and depth == 0:
            count += 1
        elif char in "=." and (char == "=" or "..." in signature):
            return ""
        has_any = has_any or not char.isspace()
    return str(count if has_any else 0)


def _after_bracket(signature: str, name: str) -> int:
    """Return where the parameters of a function begin; annotations and types may have brackets
    too."""
    at = signature.find(f"{name}(")
    opened = signature.find(f"{name}<")
    if at < 0 and opened >= 0:
        # They begin behind the generic types, whose brackets are skipped.
        at, depth = opened, 0
        for index in range(opened + len(name), len(signature)):
            depth += (signature[index] == "<") - (signature[index] == ">")
            if depth == 0:
                at = index
                break
    return signature.find("(", max(0, at)) + 1
