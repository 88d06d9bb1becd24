class B {
 public:
  void fromBase();
};

class C : public B {
 public:
  void own() {
    int x = 1;
  }
  void later();
  B* made();
};
