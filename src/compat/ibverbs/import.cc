// Objects of another context of the device, by handle.

#include <cerrno>

#include "compat/ibverbs/objects.h"

using namespace weft;
using namespace weft::compat;

extern "C" {

WEFT_EXPORT ibv_context* ibv_import_device(int) {
  refuse(EOPNOTSUPP, "devices cannot be imported yet");
  return nullptr;
}
WEFT_EXPORT ibv_pd* ibv_import_pd(ibv_context*, std::uint32_t) {
  refuse(EOPNOTSUPP, "protection domains cannot be imported yet");
  return nullptr;
}
WEFT_EXPORT void ibv_unimport_pd(ibv_pd*) {}
WEFT_EXPORT ibv_mr* ibv_import_mr(ibv_pd*, std::uint32_t) {
  refuse(EOPNOTSUPP, "memory regions cannot be imported yet");
  return nullptr;
}
WEFT_EXPORT void ibv_unimport_mr(ibv_mr*) {}
WEFT_EXPORT ibv_dm* ibv_import_dm(ibv_context*, std::uint32_t) {
  refuse(EOPNOTSUPP, "there is no device memory");
  return nullptr;
}
WEFT_EXPORT void ibv_unimport_dm(ibv_dm*) {}

}  // extern "C"
