// The header in front of a MAD: its address and its status.

#include <endian.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>

#include "compat/ibumad/abi.h"

static_assert(sizeof(ib_user_mad) == 64, "as the kernel has it");

namespace {

[[nodiscard]] ib_user_mad& envelope_of(void* umad) { return *static_cast<ib_user_mad*>(umad); }

}  // namespace

extern "C" {

WEFT_EXPORT void* umad_get_mad(void* umad) { return envelope_of(umad).data; }

WEFT_EXPORT std::size_t umad_size() { return sizeof(ib_user_mad); }

WEFT_EXPORT int umad_status(void* umad) { return static_cast<int>(envelope_of(umad).status); }

WEFT_EXPORT ib_mad_addr_t* umad_get_mad_addr(void* umad) { return &envelope_of(umad).addr; }

/// Here the flow label is in host byte order, and it is sent in network byte order.
WEFT_EXPORT int umad_set_grh(void* umad, void* address) {
  ib_mad_addr_t& to = envelope_of(umad).addr;
  const auto* const from = static_cast<const ib_mad_addr_t*>(address);
  to.grh_present = from != nullptr ? 1 : 0;
  if (from != nullptr) {
    std::memcpy(to.gid, from->gid, sizeof to.gid);
    to.flow_label = htobe32(from->flow_label);
    to.hop_limit = from->hop_limit;
    to.traffic_class = from->traffic_class;
  }
  return 0;
}

WEFT_EXPORT int umad_set_pkey(void* umad, int pkey_index) {
  envelope_of(umad).addr.pkey_index = static_cast<std::uint16_t>(pkey_index);
  return 0;
}

WEFT_EXPORT int umad_get_pkey(void* umad) { return envelope_of(umad).addr.pkey_index; }

WEFT_EXPORT int umad_set_addr(void* umad, int dlid, int dqp, int sl, int qkey) {
  return umad_set_addr_net(umad, htobe16(static_cast<std::uint16_t>(dlid)),
                           htobe32(static_cast<std::uint32_t>(dqp)), sl,
                           htobe32(static_cast<std::uint32_t>(qkey)));
}

WEFT_EXPORT int umad_set_addr_net(void* umad, __be16 dlid, __be32 dqp, int sl, __be32 qkey) {
  ib_mad_addr_t& to = envelope_of(umad).addr;
  to.lid = dlid;
  to.qpn = dqp;
  to.sl = static_cast<std::uint8_t>(sl);
  to.qkey = qkey;
  return 0;
}

WEFT_EXPORT void umad_addr_dump(ib_mad_addr_t* address) {
  std::string gid;
  for (const std::uint8_t octet : address->gid) {
    fmt::format_to(std::back_inserter(gid), "{:02x}", octet);
  }
  fmt::print(stderr,
             "umad [{}]: qpn {} qkey {:#x} lid {} sl {}; grh {} gid_index {} hop_limit {} "
             "traffic_class {} flow_label {:#x} pkey_index {}; gid 0x{}\n",
             getpid(), be32toh(address->qpn), be32toh(address->qkey), be16toh(address->lid),
             address->sl, address->grh_present, address->gid_index, address->hop_limit,
             address->traffic_class, be32toh(address->flow_label),
             static_cast<unsigned>(address->pkey_index), gid);
}

WEFT_EXPORT void umad_dump(void* umad) {
  const ib_user_mad& envelope = envelope_of(umad);
  fmt::print(stderr, "umad [{}]: agent {} status {} timeout {} ms\n", getpid(), envelope.agent_id,
             envelope.status, envelope.timeout_ms);
  umad_addr_dump(&envelope_of(umad).addr);
}

}  // extern "C"
