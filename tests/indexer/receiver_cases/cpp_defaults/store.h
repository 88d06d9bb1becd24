#pragma once
class Text {
 public:
  void Set(const char* text, int flags = 0);
};
class Store {
 public:
  void Save();
 private:
  Text text_;
};
