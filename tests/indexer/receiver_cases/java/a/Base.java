package a;

class Base {
  Log log;

  void shared() {
    other(1);
  }

  void other(int n) {
  }

  Base text() {
    return this;
  }
}
