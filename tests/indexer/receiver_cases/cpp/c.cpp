#include "c.h"

static void helper() {
  C c;
  c.own();
  auto q = new C();
  q->later();
}

void C::later() {
  own();
  fromBase();
  made()->fromBase();
  helper();
}

void B::fromBase() {
  int y = 1;
}

B* C::made() {
  return nullptr;
}
