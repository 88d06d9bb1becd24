"""Methods are linked by the class of their object, and calls without one by the class around them."""

import pytest

from tests.indexer.conftest import Index
from tests.indexer.test_links import arrows

GO = {
    "go.mod": "module example.com/shop\n\ngo 1.22\n",
    "store.go": (
        "package shop\n\ntype base struct {\n\tname string\n}\n\nfunc (b *base) Close() error {\n"
        "\treturn nil\n}\n\n"
        "type Store struct {\n\tbase\n\tlog   *Log\n\titems []*Item\n}\n\n"
        "type Log struct {\n\tn int\n}\n\ntype Item struct {\n\tn int\n}\n\n"
        "type Saver interface {\n\tSave() error\n}\n\n"
        "type Items []*Item\n\nvar Shared = NewStore()\n\n"
        "func NewStore() *Store {\n\treturn &Store{}\n}\n\nfunc begin() (*Store, error) {\n"
        "\treturn NewStore(), nil\n}\n"
    ),
    "log.go": (
        "package shop\n\nfunc (l *Log) Write() {\n\tl.n++\n}\n\nfunc (i *Item) Go() {\n\ti.n++\n"
        "}\n\n"
        "func (s *Store) Save() error {\n\ts.log.Write()\n\tfor _, item := range s.items {\n"
        "\t\titem.Go()\n\t}\n"
        "\treturn s.Close()\n}\n"
    ),
    "use.go": (
        "package shop\n\nfunc first() {\n\tNewStore().Save()\n}\n\nfunc second(any Saver) {\n"
        "\tany.Save()\n}\n\n"
        "func third() {\n\ts, err := begin()\n\ts.Save()\n\terr.Save()\n}\n\nfunc fourth() {\n"
        "\tShared.Close()\n}\n\n"
        "func fifth(all Items) {\n\tall[0].Go()\n}\n\nfunc sixth(r *Store) {\n"
        "\tr.Close()\n\tfunc(r *Item) {\n\t\tr.Go()\n\t}(nil)\n\tr.Save()\n}\n"
    ),
    "store_test.go": (
        'package shop\n\nimport "testing"\n\nfunc TestSave(t *testing.T) {\n\tr := NewStore()\n'
        '\tt.Run("saves", func(t *testing.T) {\n\t\tr.Save()\n\t})\n}\n'
    ),
}
JAVA = {
    "a/Base.java": (
        "package a;\n\nclass Base {\n  Log log;\n\n  void shared() {\n    other(1);\n  }\n\n"
        "  void other(int n) {\n  }\n\n"
        "  Base text() {\n    return this;\n  }\n}\n"
    ),
    "a/Log.java": (
        "package a;\n\nclass Log {\n  void write() {\n  }\n\n  static Log open() {\n    return new Log();\n  }\n}\n"
    ),
    "a/Store.java": (
        "package a;\n\nimport static a.Tool.help;\n\nclass Store extends Base {\n  void run() {\n"
        "    shared();\n    get();\n"
        "    help();\n    log.write();\n    Runnable task = () -> get();\n  }\n\n  void get() {\n"
        "  }\n\n"
        "  Store text(String given) {\n    return this;\n  }\n\n"
        "  class Inner {\n    void go() {\n      get();\n    }\n  }\n}\n"
    ),
    "a/Tool.java": "package a;\n\nclass Tool {\n  static void help() {\n  }\n}\n",
    "a/Use.java": (
        "package a;\n\nclass Use {\n  void first(Store store) {\n    store.text().shared();\n"
        "  }\n\n"
        '  void second() {\n    var made = new Store();\n    made.text("x").run();\n  }\n\n'
        "  void third() {\n    Log.open().write();\n  }\n\n"
        "  void fourth(java.util.List<Store> all) {\n    for (var one : all) {\n"
        "      one.run();\n    }\n"
        "    all.get(0).get();\n  }\n\n  void fifth(A a) {\n    a.go();\n  }\n}\n\nclass A {\n"
        "  void go() {\n  }\n}\n"
    ),
}
CSHARP = {
    "Base.cs": ("namespace Acme\n{\n  class Base\n  {\n    protected void Inherited()\n    {\n    }\n  }\n}\n"),
    "Store.cs": (
        "namespace Acme\n{\n  class Store : Base\n  {\n    private readonly Log log = new Log();\n"
        "    public Log Audit { get; set; }\n\n    public static Store Open()\n    {\n"
        "      return new Store();\n    }\n\n"
        "    public void Save()\n    {\n      Inherited();\n      log.Write();\n"
        "      Audit.Write();\n"
        "      System.Action f = () => Helper();\n    }\n\n    void Helper()\n    {\n"
        "      Open().Save();\n    }\n  }\n}\n"
    ),
    "Log.cs": (
        "namespace Acme\n{\n  class Log\n  {\n    public void Write()\n    {\n    }\n  }\n\n"
        "  interface IThing\n  {\n"
        "    void Do();\n  }\n\n  class User\n  {\n    public void Use(IThing thing)\n    {\n"
        "      thing.Do();\n"
        "      new Store().Save();\n    }\n  }\n}\n"
    ),
}
CPP = {
    "c.h": (
        "class B {\n public:\n  void fromBase();\n};\n\nclass C : public B {\n public:\n"
        "  void own() {\n    int x = 1;\n  }\n"
        "  void later();\n  B* made();\n};\n"
    ),
    "c.cpp": (
        '#include "c.h"\n\nstatic void helper() {\n  C c;\n  c.own();\n  auto q = new C();\n'
        "  q->later();\n}\n\n"
        "void C::later() {\n  own();\n  fromBase();\n  made()->fromBase();\n  helper();\n}\n\n"
        "void B::fromBase() {\n  int y = 1;\n}\n\nB* C::made() {\n  return nullptr;\n}\n"
    ),
}
RUBY = {
    "lib/base.rb": ("class Base\n  def shared\n    own 1\n  end\n\n  def own(x)\n    x\n  end\nend\n"),
    "lib/tools.rb": "module Tools\n  def clean\n    1\n  end\nend\n",
    "lib/store.rb": (
        "class Store\n  def self.open\n    new(2)\n  end\n\n  def get\n    1\n  end\n\n"
        "  def done?\n    true\n  end\nend\n"
    ),
    "lib/site.rb": (
        "class Site < Base\n  include Tools\n  attr_reader :store\n\n  def initialize\n"
        "    @store = Store.new(1)\n  end\n\n"
        "  def process\n    reset\n    shared\n    clean\n    items.each { |item| render item }\n"
        "  end\n\n"
        "  def kept\n    store.get\n    @store.done?\n  end\n\n  def opened\n    Store.open.get\n"
        "  end\n\n"
        "  def render(reset)\n    reset\n  end\n\n  def reset\n    shared = 2\n    shared\n"
        "  end\nend\n"
    ),
    "lib/more.rb": "class Site\n  def more\n    reset\n  end\nend\n",
}
RUST = {
    "Cargo.toml": '[package]\nname = "shop"\n',
    "src/lib.rs": "pub mod store;\npub mod deep;\n",
    "src/store.rs": (
        "use crate::deep::Log;\n\npub struct Store {\n    log: Box<Log>,\n    items: Vec<Item>,\n"
        "}\n\npub struct Item(Log);\n\n"
        "pub enum Kind {\n    One(Item),\n}\n\npub trait Shape {\n    fn area(&self) -> u8;\n\n"
        "    fn twice(&self) -> u8 {\n        self.area()\n    }\n}\n\n"
        "impl Store {\n    pub fn new() -> Self {\n        todo!()\n    }\n\n"
        "    pub fn open() -> Result<Self, u8> {\n        todo!()\n    }\n\n"
        "    pub fn save(&self) {\n"
        "        self.log.write();\n        for item in &self.items {\n            item.go();\n"
        "        }\n    }\n}\n\n"
        "impl Item {\n    fn go(&self) {\n        self.0.write();\n    }\n}\n\n"
        "fn first() {\n    Store::new().save();\n}\n\nfn second() -> Result<(), u8> {\n"
        "    let store = Store::open()?;\n"
        "    store.save();\n    Ok(())\n}\n\nfn third(kind: Kind) {\n    match kind {\n"
        "        Kind::One(one) => one.go(),\n"
        "    }\n}\n\nfn fourth<T: Shape>(shape: T) {\n    shape.twice();\n}\n\n"
        "#[cfg(test)]\nmod tests {\n    use super::*;\n\n    fn made() -> Store {\n"
        "        Store::new()\n    }\n\n"
        "    #[test]\n    fn saves() {\n        assert_eq!((), made().save());\n    }\n}\n"
    ),
    "src/deep.rs": "pub struct Log;\n\nimpl Log {\n    pub fn write(&self) {\n    }\n}\n",
}
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
    "first.py": ("from pk import engine, Shop\n\n\ndef first():\n    engine.compute()\n    Shop().persist()\n"),
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
        "<?php\nnamespace Acme;\n\nclass Store extends Base\n{\n    private Log $own;\n\n"
        "    public function __construct(private Log $audit)\n    {\n        $this->made = new Log();\n    }\n\n"
        "    public function save(): static\n    {\n        $this->shared();\n        $this->log->write();\n"
        "        return $this;\n    }\n\n    public function own()\n    {\n        $this->own->write();\n    }\n\n"
        "    public function audit()\n    {\n        $this->audit->write();\n    }\n\n"
        "    public function made()\n    {\n        $this?->made->write();\n    }\n\n"
        "    public static function open(): self\n    {\n        return new self(new Log());\n    }\n}\n"
    ),
    "src/use.php": (
        "<?php\nnamespace Acme;\n\nfunction first(Store $one, ?Log $two, Saver $three)\n{\n"
        "    $one->save()->own();\n    $two->write();\n    $three->keep()->audit();\n}\n\n"
        "function second()\n{\n    $made = new \\Acme\\Store(1);\n    $made->save();\n    (new Store(2))->own();\n}\n\n"
        "function third()\n{\n    Store::open()->made();\n}\n\nfunction fourth(string $one, array $all)\n{\n"
        "    $one->write();\n    foreach ($all as $each) {\n        $each->audit();\n    }\n}\n"
    ),
}
KOTLIN = {
    "a/Base.kt": (
        "package a\n\nopen class Base {\n  val log: Log = Log()\n\n  fun shared(): Int {\n    return 1\n  }\n}\n\n"
        "class Log {\n  fun write(): Int {\n    return 1\n  }\n}\n\n"
        "interface Saver {\n  fun keep(): Store\n}\n\nfun String.mark(): Int {\n  return 1\n}\n"
    ),
    "a/Store.kt": (
        "package a\n\nclass Store(private val audit: Log) : Base() {\n  private val own = Log()\n"
        "  lateinit var late: Log\n\n  fun save(): Store {\n    shared()\n    log.write()\n    return this\n  }\n\n"
        "  fun own() {\n    own.write()\n  }\n\n  fun audit() {\n    this.audit.write()\n  }\n\n"
        "  fun late() {\n    late?.write()\n  }\n}\n\nfun Store.more(): Int {\n  return save()\n}\n"
    ),
    "a/Use.kt": (
        "package a\n\nfun first(one: Store, two: Log?, three: Saver) {\n  one.save().own()\n  two!!.write()\n"
        "  three.keep().audit()\n}\n\nfun second() {\n  var made = opened()\n  made = Store(Log())\n  made.save()\n"
        "  val given: Store = made\n  given.more()\n}\n\nfun third(all: List<Store>) {\n"
        "  for (one in all) {\n    one.save()\n  }\n  all[0].own()\n  all.first().late()\n}\n\n"
        "fun fourth(text: String) {\n  text.write()\n  text.mark()\n}\n"
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
        "class Store: Base {\n  static let all = Store()\n  private let audit: Log\n  var own = Log()\n\n"
        "  init(audit: Log) {\n    self.audit = audit\n  }\n\n  func save() -> Store {\n    shared()\n"
        "    log?.write()\n    return self\n  }\n\n  func owned() {\n    own.write()\n  }\n\n"
        "  func audited() {\n    if let audit = self.audit {\n      audit.write()\n    }\n  }\n}\n"
    ),
    "Use.swift": (
        "func first(one: Store, _ two: inout Log, three: any Saver) {\n  one.save().owned()\n  two.write()\n"
        "  three.keep().audited()\n}\n\nfunc second() {\n  let made = Store(audit: Log<Int>())\n  made.save()\n"
        "  let given: Store = made\n  given.owned()\n  Store.all.audited()\n}\n\n"
        "func third(all: [Store], named: [String: Log]) {\n  for one in all {\n    one.save()\n  }\n"
        '  all[0].owned()\n  named["a"]!.write()\n}\n\n'
        "func fourth(text: String) {\n  text.write()\n  text.mark()\n}\n"
    ),
}
SCALA = {
    "a/Base.scala": (
        "package a\n\nclass Base[T] {\n  val log: Log = new Log()\n\n  def shared(): Int = {\n    1\n  }\n}\n\n"
        "class Log {\n  def write(): Int = {\n    1\n  }\n}\n\ntrait Saver {\n  def keep(): Store\n}\n"
    ),
    "a/Store.scala": (
        "package a\n\nclass Store(audit: Log) extends Base[Log] {\n  private val own = new Log()\n\n"
        "  def save(): Store = {\n    shared()\n    log.write()\n    this\n  }\n\n"
        "  def owned(): Int = {\n    own.write()\n  }\n\n  def audited(): Int = {\n    audit.write()\n  }\n}\n\n"
        "object Store {\n  def open() = {\n    new Store(new Log())\n  }\n}\n"
    ),
    "a/Use.scala": (
        "package a\n\nobject Use {\n  def first(one: Store, two: Option[Log], three: Saver) = {\n"
        "    one.save().owned()\n    two.get().write()\n    three.keep().audited()\n  }\n\n"
        "  def second() = {\n    val made = new Store(1)\n    made.save()\n    val other: Store = made\n"
        "    other.log.write()\n    Store.open().owned()\n  }\n\n  def third(all: List[Store]) = {\n"
        "    for (one <- all) {\n      one.save()\n    }\n    all.map((each: Store) => each.owned())\n  }\n\n"
        "  def fourth(text: String) = {\n    text.write()\n  }\n}\n"
    ),
}
CASES: dict[str, tuple[dict[str, str], set[tuple[str, str]]]] = {
    "go": (
        GO,
        arrows(
            "store.go:NewStore -> store.go:Store",
            "store.go:begin -> store.go:NewStore",
            "store.go:module:Shared -> store.go:NewStore",
            "log.go:Store.Save -> log.go:Log.Write log.go:Item.Go store.go:base.Close",
            "use.go:first -> store.go:NewStore log.go:Store.Save",
            "use.go:second -> store.go:Saver",
            "use.go:third -> store.go:begin log.go:Store.Save",
            "use.go:fourth -> store.go:base.Close",
            "use.go:fifth -> log.go:Item.Go",
            "use.go:sixth -> store.go:base.Close log.go:Item.Go log.go:Store.Save",
        ),
    ),
    "java": (
        JAVA,
        arrows(
            "Base.java:Base.shared -> Base.java:Base.other",
            "Log.java:Log.open -> Log.java:Log",
            "Store.java:Store.run -> Base.java:Base.shared Store.java:Store.get Tool.java:Tool.help Log.java:Log.write",
            "Store.java:Store.Inner.go -> Store.java:Store.get",
            "Use.java:Use.first -> Base.java:Base.text Base.java:Base.shared",
            "Use.java:Use.second -> Store.java:Store Store.java:Store.text Store.java:Store.run",
            "Use.java:Use.third -> Log.java:Log.open Log.java:Log.write",
            "Use.java:Use.fourth -> Store.java:Store.run Store.java:Store.get",
            "Use.java:Use.fifth -> Use.java:A.go",
        ),
    ),
    "c#": (
        CSHARP,
        arrows(
            "Store.cs:Acme.Store -> Log.cs:Acme.Log",
            "Store.cs:Acme.Store.Open -> Store.cs:Acme.Store",
            "Store.cs:Acme.Store.Save -> Base.cs:Acme.Base.Inherited Log.cs:Acme.Log.Write Store.cs:Acme.Store.Helper",
            "Store.cs:Acme.Store.Helper -> Store.cs:Acme.Store.Open Store.cs:Acme.Store.Save",
            "Log.cs:Acme.User.Use -> Log.cs:Acme.IThing Store.cs:Acme.Store Store.cs:Acme.Store.Save",
        ),
    ),
    "c++": (
        CPP,
        arrows(
            "c.cpp:helper -> c.h:C c.h:C.own c.cpp:C.later",
            "c.cpp:C.later -> c.h:C.own c.cpp:B.fromBase c.cpp:C.made c.cpp:helper",
        ),
    ),
    "ruby": (
        RUBY,
        arrows(
            "base.rb:Base.shared -> base.rb:Base.own",
            "site.rb:Site.initialize -> store.rb:Store",
            "site.rb:Site.process -> site.rb:Site.reset base.rb:Base.shared tools.rb:Tools.clean site.rb:Site.render",
            "site.rb:Site.kept -> store.rb:Store.get store.rb:Store.done?",
            "site.rb:Site.opened -> store.rb:Store.open store.rb:Store.get",
            "more.rb:Site.more -> site.rb:Site.reset",
        ),
    ),
    "rust": (
        RUST,
        arrows(
            "store.rs:Shape.twice -> store.rs:Shape",
            "store.rs:Store.save -> deep.rs:Log.write store.rs:Item.go",
            "store.rs:Item.go -> deep.rs:Log.write",
            "store.rs:first -> store.rs:Store.new store.rs:Store.save",
            "store.rs:second -> store.rs:Store.open store.rs:Store.save",
            "store.rs:third -> store.rs:Item.go",
            "store.rs:fourth -> store.rs:Shape.twice",
            "store.rs:tests.made -> store.rs:Store.new",
        ),
    ),
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
            "Use.swift:first -> Store.swift:Store.save Store.swift:Store.owned Base.swift:Log.write",
            "Use.swift:first -> Base.swift:Saver Store.swift:Store.audited",
            "Use.swift:second -> Store.swift:Store Base.swift:Log Store.swift:Store.save Store.swift:Store.owned",
            "Use.swift:second -> Store.swift:Store.audited",
            "Use.swift:third -> Store.swift:Store.save Store.swift:Store.owned Base.swift:Log.write",
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
            "Use.scala:Use.first -> Store.scala:Store.save Store.scala:Store.owned Base.scala:Log.write",
            "Use.scala:Use.first -> Base.scala:Saver Store.scala:Store.audited",
            "Use.scala:Use.second -> Store.scala:Store.save Base.scala:Log.write Store.scala:Store.open",
            "Use.scala:Use.second -> Store.scala:Store Store.scala:Store#2 Store.scala:Store.owned",
            "Use.scala:Use.third -> Store.scala:Store.save Store.scala:Store.owned",
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_method_is_found_by_the_class_of_its_object(name: str, index: Index) -> None:
    """Constructors, factories, members, bases, closures, containers and chains lead to the class; nothing else does."""
    files, expected = CASES[name]
    index.of(files)
    assert index.edges("calls") == expected


def test_tests_reach_methods_through_closures_and_macros(index: Index) -> None:
    """What a subtest of Go or an assertion of Rust calls on an object is tied to the test."""
    index.of({**GO, **RUST})
    assert arrows(
        "store_test.go:TestSave -> store.go:NewStore log.go:Store.Save",
        "store.rs:tests.saves -> store.rs:Store.save",
    ) <= index.edges("tests")


TWINS: dict[str, tuple[dict[str, str], set[tuple[str, str]]]] = {
    "java": (
        {
            "p/F.java": (
                "package p;\n\npublic class F {\n  public static int join(int a, int b) {\n    return a;\n  }\n\n"
                "  public static int join(int a, int b, int c) {\n    return a;\n  }\n\n"
                "  public static int join(int[] a) {\n    return 0;\n  }\n\n"
                "  public static int join(String a) {\n    return 0;\n  }\n}\n"
            ),
            "q/U.java": (
                "package q;\n\nimport static p.F.join;\n\nclass U {\n  int two() {\n    return join(1, 2);\n  }\n\n"
                "  int three() {\n    return join(1, 2, 3);\n  }\n}\n"
            ),
            "q/V.java": (
                "package q;\n\nimport p.F;\n\nclass V {\n  int two() {\n    return F.join(1, 2);\n  }\n\n"
                "  int one(F given) {\n    return given.join(1);\n  }\n}\n"
            ),
        },
        arrows(
            "U.java:U.two -> F.java:F.join",
            "U.java:U.three -> F.java:F.join#2",
            "V.java:V.two -> F.java:F.join",
            "V.java:V.one -> F.java:F.join#3 F.java:F.join#4",
        ),
    ),
    "c#": (
        {
            "F.cs": (
                "class F\n{\n  public static int Join(int a)\n  {\n    return a;\n  }\n\n"
                "  public static int Join(int a, int b)\n  {\n    return a;\n  }\n}\n"
            ),
            "U.cs": "class U\n{\n  int One()\n  {\n    return F.Join(1);\n  }\n}\n",
        },
        arrows("U.cs:U.One -> F.cs:F.Join"),
    ),
    "kotlin": (
        {
            "p/F.kt": (
                "package p\n\nfun glue(a: Int): Int {\n    return a\n}\n\n"
                "fun glue(a: Int, b: Int): Int {\n    return glue(a)\n}\n"
            ),
            "q/U.kt": "package q\n\nimport p.glue\n\nfun one(): Int {\n    return glue(1)\n}\n\n"
            "fun unclear(): Int {\n    return glue(1) { 2 }\n}\n",
        },
        arrows("F.kt:glue#2 -> F.kt:glue", "U.kt:one -> F.kt:glue", "U.kt:unclear -> F.kt:glue F.kt:glue#2"),
    ),
    "c++": (
        {
            "f.h": "int glue(int a) {\n  return a;\n}\n\nint glue(int a, int b) {\n  return glue(a);\n}\n",
            "u.cpp": '#include "f.h"\n\nint one() {\n  return glue(1);\n}\n',
        },
        arrows("f.h:glue#2 -> f.h:glue", "u.cpp:one -> f.h:glue"),
    ),
    "rust": (
        {
            "Cargo.toml": '[package]\nname = "shop"\n',
            "src/lib.rs": (
                "#[cfg(unix)]\npub fn mode() -> u8 {\n    1\n}\n\n#[cfg(windows)]\npub fn mode() -> u8 {\n    2\n}\n\n"
                "pub fn user() -> u8 {\n    mode()\n}\n"
            ),
        },
        arrows("lib.rs:user -> lib.rs:mode lib.rs:mode#2"),
    ),
    "python": (
        {
            "m.py": "if fast:\n    def mode():\n        return 1\nelse:\n    def mode():\n        return 2\n",
            "use.py": "from m import mode\n\n\ndef user():\n    return mode()\n",
        },
        arrows("use.py:user -> m.py:mode m.py:mode#2"),
    ),
    "ruby": (
        {
            "page.rb": (
                "class Page\n  def self.render(text)\n    new.render(text)\n  end\n\n"
                "  def render(text)\n    text\n  end\nend\n"
            ),
        },
        arrows("page.rb:Page.render -> page.rb:Page.render#2"),
    ),
    "go": (
        {
            "go.mod": "module example.com/a\n",
            "a.go": 'package a\n\nfunc report(n int) int {\n\treturn min(n, len("x"))\n}\n',
            "b.go": "package a\n\nfunc min(a, b int) int {\n\treturn b\n}\n",
        },
        arrows("a.go:report -> b.go:min"),
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_a_call_means_every_definition_that_takes_its_arguments(name: str, index: Index) -> None:
    """Overloads are chosen by the number of arguments, in any file; twins for platforms are all meant."""
    files, expected = TWINS[name]
    index.of(files)
    assert index.edges("calls") == expected


LIBRARY = {
    "err.rb": (
        "class Err\n  def to_s\n    1\n  end\n\n  def respond_to?(name)\n    true\n  end\n\n"
        "  def paint\n    2\n  end\nend\n\n"
        "def show(value)\n  value.to_s\n  value.respond_to?(:x)\n  value.paint\n  Err.new.to_s\nend\n"
    ),
    "p/Err.java": (
        "package p;\n\nclass Err {\n  int equals(Err e) {\n    return 1;\n  }\n\n"
        "  int paint() {\n    return 1;\n  }\n}\n\n"
        "class Use {\n  void show(T v, Err e) {\n    v.equals(e);\n    v.paint();\n  }\n\n"
        "  void typed(Err e) {\n    e.equals(e);\n  }\n}\n"
    ),
    "err.py": (
        "class Err:\n    def popitem(self):\n        return 1\n\n    def paint(self):\n        return 2\n\n\n"
        "def show(value, err: Err):\n    value.popitem()\n    value.paint()\n\n\n"
        "def typed(err: Err):\n    err.popitem()\n"
    ),
    "err.js": (
        "class Err {\n  hasOwnProperty(a) {\n    return a\n  }\n\n  paint() {\n    return 1\n  }\n}\n\n"
        "function show(value) {\n  value.hasOwnProperty(1)\n  value.paint()\n}\n\n"
        "function typed() {\n  const e = new Err()\n  e.hasOwnProperty(1)\n}\n"
    ),
    "Err.cs": (
        "class Err\n{\n  public int GetHashCode()\n  {\n    return 1;\n  }\n\n"
        "  public void Typed(Err e, dynamic d)\n  {\n    e.GetHashCode();\n  }\n\n"
        "  public void Show(dynamic d)\n  {\n    d.GetHashCode();\n  }\n}\n"
    ),
}


def test_what_every_object_has_is_no_method_of_one_class(index: Index) -> None:
    """A method of the language's own classes is linked where the type of its object is known, not by its name."""
    index.of(LIBRARY)
    assert index.edges("calls") == arrows(
        "err.rb:show -> err.rb:Err.paint err.rb:Err.to_s",
        "Err.java:Use.typed -> Err.java:Err.equals",
        "err.py:show -> err.py:Err.paint",
        "err.py:typed -> err.py:Err.popitem",
        "err.js:show -> err.js:Err.paint",
        "err.js:typed -> err.js:Err err.js:Err.hasOwnProperty",
        "Err.cs:Err.Typed -> Err.cs:Err.GetHashCode",
    )


LOOPS = {
    "a.go": (
        "package a\n\ntype One = Two\n\ntype Two = One\n\nfunc first() One {\n\treturn second()\n"
        "}\n\n"
        "func second() Two {\n\treturn first()\n}\n\nfunc use() {\n\tfirst().run()\n}\n"
    ),
    "b.py": (
        "def first():\n    return second()\n\n\ndef second():\n    return first()\n\n\n"
        "class Loop(Loop):\n    def __init__(self):\n        self.next = self.next.next\n\n"
        "    def go(self):\n        x = first()\n        x = x.next\n        x.run()\n"
        "        self.next.run()\n"
    ),
}


def test_types_that_lead_to_themselves_come_to_an_end(index: Index) -> None:
    """Aliases, results, members and bases in a circle have no method, and linking ends."""
    index.of(LOOPS)
    assert index.edges("calls") == arrows(
        "a.go:first -> a.go:second",
        "a.go:second -> a.go:first",
        "a.go:use -> a.go:first",
        "b.py:first -> b.py:second",
        "b.py:second -> b.py:first",
        "b.py:Loop.go -> b.py:first",
    )


def test_a_long_chain_costs_no_more_than_its_links(index: Index) -> None:
    """Of a chain of a thousand calls only the last steps are kept, and each is looked at a bounded number of times."""
    chain = "".join(f".step{number}(a, b)" for number in range(1_000))
    report = index.run(index.make({"a.py": f"def build(x):\n    return x{chain}\n"}))
    assert report.notes == ()
