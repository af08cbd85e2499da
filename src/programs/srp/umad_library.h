#pragma once

// What is used of libibumad, which is found when the program runs, and loaded once.

#include <infiniband/umad.h>

#include "base/result.h"

namespace weft::programs::srp {

struct UmadLibrary {
  decltype(&umad_init) init{};
  decltype(&umad_get_port) get_port{};
  decltype(&umad_release_port) release_port{};
  decltype(&umad_open_port) open_port{};
  decltype(&umad_close_port) close_port{};
  decltype(&umad_register) register_agent{};
  decltype(&umad_get_fd) get_fd{};
  decltype(&umad_size) size{};
  decltype(&umad_poll) poll{};
  decltype(&umad_recv) recv{};
  decltype(&umad_send) send{};
  decltype(&umad_status) status{};
  decltype(&umad_set_addr) set_addr{};
  decltype(&umad_set_pkey) set_pkey{};
  decltype(&umad_get_mad_addr) get_mad_addr{};

  /// NotFound: it cannot be loaded, or has no fabric.
  [[nodiscard]] static Result<const UmadLibrary*> load();

 private:
  UmadLibrary();

  bool is_whole_{};
};

}  // namespace weft::programs::srp
