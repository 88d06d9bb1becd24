#include "store.h"
void Text::Set(const char* text, int flags) {
}
void Store::Save() {
  text_.Set("a");
}
