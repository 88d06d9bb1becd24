package a;

import static a.Tool.help;

class Store extends Base {
  void run() {
    shared();
    get();
    help();
    log.write();
    Runnable task = () -> get();
  }

  void get() {
  }

  Store text(String given) {
    return this;
  }

  class Inner {
    void go() {
      get();
    }
  }
}
