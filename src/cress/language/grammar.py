"""The grammar of the language, for lark. It leaves the meaning of names and clauses to other modules."""

from __future__ import annotations

from cress.language.functions import FUNCTIONS
from cress.language.names import PLACING

# The lexer is contextual: other rules apply inside the list of ``in (…)``, after ``Resource =`` and after
# ``JobDependency =``.
GRAMMAR = r"""
?start: either

?either: both
    | both (_OR both)+ -> either
?both: item
    | item (_AND item)+ -> both
?item: negation
    | FX _EQUAL negation -> relaxation
?negation: comparison
    | _NOT negation -> negation
?comparison: sum
    | sum _EQUAL sum -> equal
    | sum COMPARE sum -> compare
    | sum IS sum -> identical
    | sum _IN _OPEN entry (_COMMA entry)* _CLOSE -> member
    | sum _IN (NAME | QUOTED) -> inside
    | RESOURCE _EQUAL VECTOR -> resource
    | DEPENDENCY _EQUAL (JOB | TEXT) -> dependency
?sum: product
    | product (ADD product)+ -> arithmetic
?product: sign
    | sign (MULTIPLY sign)+ -> arithmetic
?sign: atom
    | _MINUS sign -> negative
?atom: NUMBER -> number
    | TEXT -> text
    | TRUTH -> truth
    | (NAME | QUOTED) -> name
    | DEFINED _OPEN (NAME | QUOTED) _CLOSE -> defined
    | CALL _OPEN either (_COMMA either)* _CLOSE -> call
    | _OPEN either _CLOSE

entry: ENTRY | TEXT

_OR.4: /\|\||∨|or(?![\w.-])/i
_AND.4: /&&|∧|and(?![\w.-])/i
_NOT.4: /!(?!\s*=)|¬|not(?![\w.-])/i
_IN.4: /in(?![\w.-])/i
TRUTH.4: /(true|false)(?![\w-])/i
FX.4: /f\s*\(\s*x\s*(,\s*weight\s*=\s*[0-9.]+\s*)?\)/i
DEFINED.4: /defined(?=\s*\()/i
CALL.4: /(functions)(?=\s*\()/i
IS.4: /is(?![\w.-])(\s+not(?![\w.-]))?|=\s*\?\s*=|=\s*!\s*=/i
RESOURCE.4: /resource(?=\s*=+\s*<)/i
DEPENDENCY.4: /(job[-_]?dependency|depended[-_]?job)(?=\s*=)/i
NAME.2: /[^\W\d]\w*([-.]\w+)*/
QUOTED.2: /`[^`\s][^`]*`/
NUMBER.2: /[0-9]+(\.[0-9]+)*\.\*|[0-9]+(\.[0-9]+){2,}\w*([-~+.]\w+)*|[0-9]+(\.[0-9]+)?-[a-z]\w*([-~+.]\w+)*|([0-9]+(\.[0-9]+)*|\.[0-9]+)(%|[a-zµμ]\w*(\.\w+)*(\/s(?!\w))?)?([-~+](rc|alpha|beta|pre|dev)[\w.]*)?/i
TEXT.2: /"(\\.|[^"\\])*"|'(\\.|[^'\\])*'/
COMPARE.3: />\s*=|<\s*=|!\s*=|~\s*>|<>|[<>≤≥≠]/
_EQUAL.2: /=\s*=|=/
ADD: /[+−-]/
_MINUS: /[−-]/
MULTIPLY: /[*×⋅·\/÷%]/
VECTOR: /<[^<>]*>/
JOB: /[^\s()"'&|<>=]+/
ENTRY: /(\[[^\s\[\]()"'&|<>=]*\]|[^\s(),"'&|<>=])+/
_OPEN: "("
_CLOSE: ")"
_COMMA: ","
%ignore /\s+/
""".replace("functions", "|".join((*FUNCTIONS, *(name.replace("_", "[-_]?") for name in PLACING.values()))))  # noqa: E501

# Names of terminals for messages of the form "… is expected".
WORDS = {
    "_OR": "||",
    "_AND": "&&",
    "_NOT": "!",
    "_IN": "in",
    "COMPARE": "a comparison",
    "IS": "a comparison",
    "_EQUAL": "a comparison",
    "ADD": "an operator",
    "_MINUS": "a value",
    "MULTIPLY": "an operator",
    "TRUTH": "a value",
    "NUMBER": "a value",
    "TEXT": "a value",
    "NAME": "a value",
    "QUOTED": "a value",
    "DEFINED": "a value",
    "CALL": "a value",
    "RESOURCE": "a value",
    "DEPENDENCY": "a value",
    "FX": "a value",
    "_OPEN": "(",
    "_CLOSE": ")",
    "_COMMA": ",",
    "VECTOR": "a vector such as <4,8G,500M,50M>",
    "JOB": "the name of a job",
    "ENTRY": "a value",
    "$END": "the end",
}
