#include "programs/srp/umad_library.h"

#include <dlfcn.h>

#include <bit>

namespace weft::programs::srp {
namespace {

constexpr const char* kLibrary = "libibumad.so.3";

template <class Function>
[[nodiscard]] bool take(void* handle, Function& to, const char* symbol) {
  void* const found = dlsym(handle, symbol);
  to = std::bit_cast<Function>(found);
  return found != nullptr;
}

}  // namespace

UmadLibrary::UmadLibrary() {
  void* const handle = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);  // never closed
  is_whole_ =
      handle != nullptr && take(handle, init, "umad_init") &&
      take(handle, get_port, "umad_get_port") && take(handle, release_port, "umad_release_port") &&
      take(handle, open_port, "umad_open_port") && take(handle, close_port, "umad_close_port") &&
      take(handle, register_agent, "umad_register") && take(handle, get_fd, "umad_get_fd") &&
      take(handle, size, "umad_size") && take(handle, poll, "umad_poll") &&
      take(handle, recv, "umad_recv") && take(handle, send, "umad_send") &&
      take(handle, status, "umad_status") && take(handle, set_addr, "umad_set_addr") &&
      take(handle, set_pkey, "umad_set_pkey") && take(handle, get_mad_addr, "umad_get_mad_addr") &&
      init() >= 0;
}

Result<const UmadLibrary*> UmadLibrary::load() {
  static const UmadLibrary loaded;
  if (!loaded.is_whole_) {
    return fail(ErrorCode::NotFound, "{} cannot be loaded; install it, or run under weft exec",
                kLibrary);
  }
  return &loaded;
}

}  // namespace weft::programs::srp
