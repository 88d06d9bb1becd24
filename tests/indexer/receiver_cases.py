"""Small repositories in which the class of an object decides which method is called, and their
edges."""

from tests.indexer.conftest import arrows

PYTHON = {
    "pk/__init__.py": "from .impl import *\nfrom . import engine\n",
    "pk/impl.py": (
        "from .store import Store as Shop\n\nshared = Shop()\n\n\ndef make():\n"
        "    return Shop()\n\n\n"
        "class K:\n    def go(self):\n        return self\n"
    ),
    "pk/store.py": (
        "class Store:\n    def persist(self):\n        return 1\n\n    @classmethod\n"
        "    def build(cls):\n        return cls()\n\n"
        '    @property\n    def peer(self) -> "Store":\n        return self\n'
    ),
    "pk/engine.py": "def compute():\n    return 1\n",
    "first.py": (
        "from pk import engine, Shop\n\n\n"
        "def first():\n"
        "    engine.compute()\n"
        "    Shop().persist()\n"
    ),
    "second.py": "from pk import make\n\n\ndef second():\n    make().persist()\n",
    "third.py": (
        "from pk import K\n\n\ndef third(k: K, many: list[K]):\n    k.go().go()\n"
        "    for one in many:\n        one.go()\n"
    ),
    "fourth.py": "import pk.store as st\n\n\ndef fourth():\n    st.Store.build().peer.persist()\n",
    "fifth.py": (
        "from pk.impl import shared\n\n\nclass Holder:\n    def __init__(self, given=None):\n"
        "        self.own = shared\n\n"
        "    def fifth(self):\n        self.own.persist()\n        shared.persist()\n"
    ),
    "sixth.py": "def sixth(text: str, go):\n    text.persist()\n    go()\n",
}
TYPESCRIPT = {
    "a.ts": (
        "export class Store {\n  #items = 1\n  save() {\n    this.#priv()\n    return this\n  }\n"
        "  #priv() {\n    return 1\n  }\n"
        "  static make(): Store {\n    return new Store()\n  }\n}\n\nexport interface Saver {\n"
        "  keep(): void\n}\n\n"
        "export const shared = new Store()\n\nexport async function open(): Promise<Store> {\n"
        "  return new Store()\n}\n"
    ),
    "index.ts": "export { default as run } from './run'\nexport * from './a'\n",
    "run.ts": "function run() {\n  return 1\n}\n\nexport default run\n",
    "b.ts": (
        'import { Store, shared, open, Saver, run } from "./index"\nimport * as ns from "./a"\n\n'
        "export function first(given: Saver) {\n  given.keep()\n  run()\n}\n\n"
        "export async function second() {\n  const opened = await open()\n  opened.save()\n}\n\n"
        "export function third() {\n  shared.save()\n}\n\nexport function fourth() {\n"
        "  ns.Store.make().save()\n}\n\n"
        'export async function fifth() {\n  const m = await import("./a")\n  m.open()\n}\n\n'
        "export class Holder {\n  constructor(private store: Store) {\n    this.store = store\n"
        "  }\n\n"
        "  sixth() {\n    this.store.save().save()\n  }\n}\n"
    ),
}
PHP = {
    "src/Base.php": (
        "<?php\nnamespace Acme;\n\nclass Base\n{\n    protected ?Log $log = null;\n\n"
        "    public function shared()\n    {\n        return 1;\n    }\n}\n\n"
        "class Log\n{\n    public function write()\n    {\n        return 1;\n    }\n}\n\n"
        "interface Saver\n{\n    public function keep(): Store;\n}\n"
    ),
    "src/Store.php": (
        "<?php\n"
        "namespace Acme;\n\n"
        "class Store extends Base\n"
        "{\n"
        "    private Log $own;\n\n"
        "    public function __construct(private Log $audit)\n"
        "    {\n"
        "        $this->made = new Log();\n"
        "    }\n\n"
        "    public function save(): static\n"
        "    {\n"
        "        $this->shared();\n"
        "        $this->log->write();\n"
        "        return $this;\n"
        "    }\n\n"
        "    public function own()\n"
        "    {\n"
        "        $this->own->write();\n"
        "    }\n\n"
        "    public function audit()\n"
        "    {\n"
        "        $this->audit->write();\n"
        "    }\n\n"
        "    public function made()\n"
        "    {\n"
        "        $this?->made->write();\n"
        "    }\n\n"
        "    public static function open(): self\n"
        "    {\n"
        "        return new self(new Log());\n"
        "    }\n"
        "}\n"
    ),
    "src/use.php": (
        "<?php\n"
        "namespace Acme;\n\n"
        "function first(Store $one, ?Log $two, Saver $three)\n"
        "{\n"
        "    $one->save()->own();\n"
        "    $two->write();\n"
        "    $three->keep()->audit();\n"
        "}\n\n"
        "function second()\n"
        "{\n"
        "    $made = new \\Acme\\Store(1);\n"
        "    $made->save();\n"
        "    (new Store(2))->own();\n"
        "}\n\n"
        "function third()\n"
        "{\n"
        "    Store::open()->made();\n"
        "}\n\n"
        "function fourth(string $one, array $all)\n"
        "{\n"
        "    $one->write();\n"
        "    foreach ($all as $each) {\n"
        "        $each->audit();\n"
        "    }\n"
        "}\n"
    ),
}
KOTLIN = {
    "a/Base.kt": (
        "package a\n\n"
        "open class Base {\n"
        "  val log: Log = Log()\n\n"
        "  fun shared(): Int {\n"
        "    return 1\n"
        "  }\n"
        "}\n\n"
        "class Log {\n"
        "  fun write(): Int {\n"
        "    return 1\n"
        "  }\n"
        "}\n\n"
        "interface Saver {\n"
        "  fun keep(): Store\n"
        "}\n\n"
        "fun String.mark(): Int {\n"
        "  return 1\n"
        "}\n"
    ),
    "a/Store.kt": (
        "package a\n\n"
        "class Store(private val audit: Log) : Base() {\n"
        "  private val own = Log()\n"
        "  lateinit var late: Log\n\n"
        "  fun save(): Store {\n"
        "    shared()\n"
        "    log.write()\n"
        "    return this\n"
        "  }\n\n"
        "  fun own() {\n"
        "    own.write()\n"
        "  }\n\n"
        "  fun audit() {\n"
        "    this.audit.write()\n"
        "  }\n\n"
        "  fun late() {\n"
        "    late?.write()\n"
        "  }\n"
        "}\n\n"
        "fun Store.more(): Int {\n"
        "  return save()\n"
        "}\n"
    ),
    "a/Use.kt": (
        "package a\n\n"
        "fun first(one: Store, two: Log?, three: Saver) {\n"
        "  one.save().own()\n"
        "  two!!.write()\n"
        "  three.keep().audit()\n"
        "}\n\n"
        "fun second() {\n"
        "  var made = opened()\n"
        "  made = Store(Log())\n"
        "  made.save()\n"
        "  val given: Store = made\n"
        "  given.more()\n"
        "}\n\n"
        "fun third(all: List<Store>) {\n"
        "  for (one in all) {\n"
        "    one.save()\n"
        "  }\n"
        "  all[0].own()\n"
        "  all.first().late()\n"
        "}\n\n"
        "fun fourth(text: String) {\n"
        "  text.write()\n"
        "  text.mark()\n"
        "}\n"
    ),
}
SWIFT = {
    "Base.swift": (
        "class Base {\n  let log: Log? = nil\n\n  func shared() -> Int {\n    return 1\n  }\n}\n\n"
        "class Log<T> {\n  func write() -> Int {\n    return 1\n  }\n}\n\n"
        "protocol Saver {\n  func keep() -> Store\n}\n\n"
        "extension String {\n  func mark() -> Int {\n    return 1\n  }\n}\n"
    ),
    "Store.swift": (
        "class Store: Base {\n"
        "  static let all = Store()\n"
        "  private let audit: Log\n"
        "  var own = Log()\n\n"
        "  init(audit: Log) {\n"
        "    self.audit = audit\n"
        "  }\n\n"
        "  func save() -> Store {\n"
        "    shared()\n"
        "    log?.write()\n"
        "    return self\n"
        "  }\n\n"
        "  func owned() {\n"
        "    own.write()\n"
        "  }\n\n"
        "  func audited() {\n"
        "    if let audit = self.audit {\n"
        "      audit.write()\n"
        "    }\n"
        "  }\n"
        "}\n"
    ),
    "Use.swift": (
        "func first(one: Store, _ two: inout Log, three: any Saver) {\n"
        "  one.save().owned()\n"
        "  two.write()\n"
        "  three.keep().audited()\n"
        "}\n\n"
        "func second() {\n"
        "  let made = Store(audit: Log<Int>())\n"
        "  made.save()\n"
        "  let given: Store = made\n"
        "  given.owned()\n"
        "  Store.all.audited()\n"
        "}\n\n"
        "func third(all: [Store], named: [String: Log]) {\n"
        "  for one in all {\n"
        "    one.save()\n"
        "  }\n"
        "  all[0].owned()\n"
        '  named["a"]!.write()\n'
        "}\n\n"
        "func fourth(text: String) {\n"
        "  text.write()\n"
        "  text.mark()\n"
        "}\n"
    ),
}
SCALA = {
    "a/Base.scala": (
        "package a\n\n"
        "class Base[T] {\n"
        "  val log: Log = new Log()\n\n"
        "  def shared(): Int = {\n"
        "    1\n"
        "  }\n"
        "}\n\n"
        "class Log {\n"
        "  def write(): Int = {\n"
        "    1\n"
        "  }\n"
        "}\n\n"
        "trait Saver {\n"
        "  def keep(): Store\n"
        "}\n"
    ),
    "a/Store.scala": (
        "package a\n\n"
        "class Store(audit: Log) extends Base[Log] {\n"
        "  private val own = new Log()\n\n"
        "  def save(): Store = {\n"
        "    shared()\n"
        "    log.write()\n"
        "    this\n"
        "  }\n\n"
        "  def owned(): Int = {\n"
        "    own.write()\n"
        "  }\n\n"
        "  def audited(): Int = {\n"
        "    audit.write()\n"
        "  }\n"
        "}\n\n"
        "object Store {\n"
        "  def open() = {\n"
        "    new Store(new Log())\n"
        "  }\n"
        "}\n"
    ),
    "a/Use.scala": (
        "package a\n\n"
        "object Use {\n"
        "  def first(one: Store, two: Option[Log], three: Saver) = {\n"
        "    one.save().owned()\n"
        "    two.get().write()\n"
        "    three.keep().audited()\n"
        "  }\n\n"
        "  def second() = {\n"
        "    val made = new Store(1)\n"
        "    made.save()\n"
        "    val other: Store = made\n"
        "    other.log.write()\n"
        "    Store.open().owned()\n"
        "  }\n\n"
        "  def third(all: List[Store]) = {\n"
        "    for (one <- all) {\n"
        "      one.save()\n"
        "    }\n"
        "    all.map((each: Store) => each.owned())\n"
        "  }\n\n"
        "  def fourth(text: String) = {\n"
        "    text.write()\n"
        "  }\n"
        "}\n"
    ),
}
CASES: dict[str, tuple[dict[str, str], set[tuple[str, str]]]] = {
    "python": (
        PYTHON,
        arrows(
            "impl.py:module:shared -> store.py:Store",
            "impl.py:make -> store.py:Store",
            "first.py:first -> engine.py:compute store.py:Store store.py:Store.persist",
            "second.py:second -> impl.py:make store.py:Store.persist",
            "third.py:third -> impl.py:K.go",
            "fourth.py:fourth -> store.py:Store.build store.py:Store.persist",
            "fifth.py:Holder.fifth -> store.py:Store.persist",
        ),
    ),
    "typescript": (
        TYPESCRIPT,
        arrows(
            "a.ts:Store.save -> a.ts:Store.priv",
            "a.ts:Store.make -> a.ts:Store",
            "a.ts:module:shared -> a.ts:Store",
            "a.ts:open -> a.ts:Store",
            "b.ts:first -> a.ts:Saver run.ts:run",
            "b.ts:second -> a.ts:open a.ts:Store.save",
            "b.ts:third -> a.ts:Store.save",
            "b.ts:fourth -> a.ts:Store.make a.ts:Store.save",
            "b.ts:fifth -> a.ts:open",
            "b.ts:Holder.sixth -> a.ts:Store.save",
        ),
    ),
    "php": (
        PHP,
        arrows(
            "Store.php:Store.__construct -> Base.php:Log",
            "Store.php:Store.save -> Base.php:Base.shared Base.php:Log.write",
            "Store.php:Store.own -> Base.php:Log.write",
            "Store.php:Store.audit -> Base.php:Log.write",
            "Store.php:Store.made -> Base.php:Log.write",
            "Store.php:Store.open -> Base.php:Log",
            "use.php:first -> Store.php:Store.save Store.php:Store.own Base.php:Log.write",
            "use.php:first -> Base.php:Saver Store.php:Store.audit",
            "use.php:second -> Store.php:Store Store.php:Store.save Store.php:Store.own",
            "use.php:third -> Store.php:Store.open Store.php:Store.made",
            "use.php:fourth -> Store.php:Store.audit",
        ),
    ),
    "kotlin": (
        KOTLIN,
        arrows(
            "Base.kt:Base -> Base.kt:Log",
            "Store.kt:Store -> Base.kt:Log",
            "Store.kt:Store.save -> Base.kt:Base.shared Base.kt:Log.write",
            "Store.kt:Store.own -> Base.kt:Log.write",
            "Store.kt:Store.audit -> Base.kt:Log.write",
            "Store.kt:Store.late -> Base.kt:Log.write",
            "Store.kt:Store.more -> Store.kt:Store.save",
            "Use.kt:first -> Store.kt:Store.save Store.kt:Store.own Base.kt:Log.write",
            "Use.kt:first -> Base.kt:Saver Store.kt:Store.audit",
            "Use.kt:second -> Store.kt:Store Base.kt:Log Store.kt:Store.save Store.kt:Store.more",
            "Use.kt:third -> Store.kt:Store.save Store.kt:Store.own Store.kt:Store.late",
            "Use.kt:fourth -> Base.kt:String.mark",
        ),
    ),
    "swift": (
        SWIFT,
        arrows(
            "Store.swift:Store -> Base.swift:Log",
            "Store.swift:Store.save -> Base.swift:Base.shared Base.swift:Log.write",
            "Store.swift:Store.owned -> Base.swift:Log.write",
            "Store.swift:Store.audited -> Base.swift:Log.write",
            "Use.swift:first -> Store.swift:Store.save Store.swift:Store.owned"
            " Base.swift:Log.write",
            "Use.swift:first -> Base.swift:Saver Store.swift:Store.audited",
            "Use.swift:second -> Store.swift:Store Base.swift:Log Store.swift:Store.save"
            " Store.swift:Store.owned",
            "Use.swift:second -> Store.swift:Store.audited",
            "Use.swift:third -> Store.swift:Store.save Store.swift:Store.owned"
            " Base.swift:Log.write",
            "Use.swift:fourth -> Base.swift:String.mark",
        ),
    ),
    "scala": (
        SCALA,
        arrows(
            "Base.scala:Base -> Base.scala:Log",
            "Store.scala:Store -> Base.scala:Log",
            "Store.scala:Store.open -> Base.scala:Log Store.scala:Store Store.scala:Store#2",
            "Store.scala:Store.save -> Base.scala:Base.shared Base.scala:Log.write",
            "Store.scala:Store.owned -> Base.scala:Log.write",
            "Store.scala:Store.audited -> Base.scala:Log.write",
            "Use.scala:Use.first -> Store.scala:Store.save Store.scala:Store.owned"
            " Base.scala:Log.write",
            "Use.scala:Use.first -> Base.scala:Saver Store.scala:Store.audited",
            "Use.scala:Use.second -> Store.scala:Store.save Base.scala:Log.write"
            " Store.scala:Store.open",
            "Use.scala:Use.second -> Store.scala:Store Store.scala:Store#2 Store.scala:Store.owned",
            "Use.scala:Use.third -> Store.scala:Store.save Store.scala:Store.owned",
        ),
    ),
}
