// Devices as pairs of an SMI and a GSI (umad_get_smi_gsi_pairs(3), rdma-core 57 and later).
// Multi-plane hardware has separate devices for the two; ours have both.

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "compat/ibumad/abi.h"
#include "compat/ibumad/devices.h"
#include "compat/ibumad/requests.h"

/// The installed header may not declare it.
struct umad_ca_pair {
  char smi_name[UMAD_CA_NAME_LEN];
  std::uint32_t smi_preferred_port;
  char gsi_name[UMAD_CA_NAME_LEN];
  std::uint32_t gsi_preferred_port;
};
static_assert(sizeof(umad_ca_pair) == 2 * (UMAD_CA_NAME_LEN + sizeof(std::uint32_t)));

namespace {

constexpr unsigned kDown = 1;  // PortInfo PortState

struct ReleaseCa {
  void operator()(umad_ca_t* ca) const {
    umad_release_ca(ca);
    delete ca;
  }
};
using Ca = std::unique_ptr<umad_ca_t, ReleaseCa>;

[[nodiscard]] Ca open_ca(const char* name) {
  auto ca = std::make_unique<umad_ca_t>();
  return umad_get_ca(name, ca.get()) == 0 ? Ca{ca.release()} : nullptr;
}

[[nodiscard]] bool is_up(const umad_port_t* port) { return port != nullptr && port->state > kDown; }

/// The first port that is up; 0 if there is none, or for a switch's only port.
[[nodiscard]] std::uint32_t first_up(const umad_ca_t& ca) {
  const auto* const found = std::ranges::find_if(ca.ports, is_up);
  return found == std::end(ca.ports) ? 0 : static_cast<std::uint32_t>((*found)->portnum);
}

[[nodiscard]] umad_ca_pair pair_of(const umad_ca_t& ca, std::uint32_t port) {
  umad_ca_pair pair{};
  std::memcpy(pair.smi_name, ca.ca_name, sizeof pair.smi_name);
  std::memcpy(pair.gsi_name, ca.ca_name, sizeof pair.gsi_name);
  pair.smi_preferred_port = pair.gsi_preferred_port = port;
  return pair;
}

[[nodiscard]] std::vector<Ca> all_cas() {
  char names[UMAD_MAX_DEVICES][UMAD_CA_NAME_LEN];
  const int count = umad_get_cas_names(names, UMAD_MAX_DEVICES);
  std::vector<Ca> cas;
  for (int i = 0; i < count; ++i) {
    if (Ca ca = open_ca(names[i])) {
      cas.push_back(std::move(ca));
    }
  }
  return cas;
}

/// True if the device qualifies, with the port to use: the requested one, which must be up unless
/// the device was named, too; else the only port, or the first that is up.
[[nodiscard]] bool choose(const umad_ca_t& ca, bool is_named, std::uint32_t wanted,
                          std::uint32_t& port) {
  if (wanted >= UMAD_CA_MAX_PORTS || (wanted != 0 && ca.ports[wanted] == nullptr)) {
    return false;
  }
  const bool has_one = std::ranges::count_if(ca.ports, [](auto* each) { return each; }) == 1;
  port = wanted != 0 ? wanted : first_up(ca);
  if (wanted == 0 && port == 0 && has_one) {
    const auto* const only = std::ranges::find_if(ca.ports, [](auto* each) { return each; });
    port = static_cast<std::uint32_t>((*only)->portnum);
  }
  return is_up(ca.ports[port]) || (is_named && (wanted != 0 || has_one));
}

}  // namespace

extern "C" {

WEFT_EXPORT int umad_get_smi_gsi_pairs(umad_ca_pair pairs[], std::size_t most) {
  if (pairs == nullptr) {
    errno = EINVAL;
    return -1;
  }
  std::fill_n(pairs, most, umad_ca_pair{});
  std::size_t count = 0;
  for (const Ca& ca : all_cas()) {
    if (count == most) {
      break;
    }
    pairs[count++] = pair_of(*ca, first_up(*ca));
  }
  return static_cast<int>(count);
}

/// Every device has both interfaces, so there is nothing to enforce.
WEFT_EXPORT int umad_get_smi_gsi_pair_by_ca_name(const char* name, std::uint8_t port,
                                                 umad_ca_pair* pair, unsigned /*enforce_smi*/) {
  if (pair == nullptr) {
    errno = EINVAL;
    return -1;
  }
  *pair = {};
  for (const Ca& ca : all_cas()) {
    std::uint32_t chosen = 0;
    if ((name == nullptr || std::strncmp(name, ca->ca_name, sizeof ca->ca_name) == 0) &&
        choose(*ca, name != nullptr, port, chosen)) {
      *pair = pair_of(*ca, chosen);
      return 0;
    }
  }
  errno = ENODEV;
  return -ENODEV;
}

/// Every port has an SMI.
WEFT_EXPORT int umad_open_smi_port(const char* name, int port) {
  return umad_open_port(name, port);
}

}  // extern "C"
