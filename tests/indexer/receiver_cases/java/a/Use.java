package a;

class Use {
  void first(Store store) {
    store.text().shared();
  }

  void second() {
    var made = new Store();
    made.text("x").run();
  }

  void third() {
    Log.open().write();
  }

  void fourth(java.util.List<Store> all) {
    for (var one : all) {
      one.run();
    }
    all.get(0).get();
  }

  void fifth(A a) {
    a.go();
  }
}

class A {
  void go() {
  }
}
