package a;

class Tool {
  static void help() {
  }
}
