"""Count the parameters in a signature, by which overloads of one name differ.

Pure text, read once from the left.
"""


def parameter_count(signature: str, name: str) -> str:
    """Return how many parameters a signature has; empty: callers may leave some out, or give
    more."""
    if "params " in signature:
        return ""
    depth, count, has_any = 0, 1, False
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
    if at < 0:
        opened = signature.find(f"{name}<")
        depth, at = 0, max(0, opened)
        for index in range(opened + len(name), len(signature)) if opened >= 0 else ():
            depth += (signature[index] == "<") - (signature[index] == ">")
            if depth == 0:
                at = index
                break
    return signature.find("(", at) + 1
