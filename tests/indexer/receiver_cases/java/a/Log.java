package a;

class Log {
  void write() {
  }

  static Log open() {
    return new Log();
  }
}
