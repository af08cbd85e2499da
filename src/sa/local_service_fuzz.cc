// Arbitrary netlink messages to a host's kernel side that has questions open: as the answers of a
// resolver that lies, repeats itself, or answers others'. Each question ends once, with a path
// between the ends that were asked for or with none, by its deadline.

#include "sa/local_service.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <vector>

#include "wire/mad/component_mask.h"

namespace weft::sa {
namespace {

using wire::kComponent;
using wire::PathRecord;

constexpr unsigned kPaths = 3;

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

class Listener final : public LocalServiceLink {
 public:
  [[nodiscard]] bool has_listeners() const override { return true; }
  bool multicast(ByteSpan datagram) override {
    ByteSpan rest = datagram;
    const auto message = wire::netlink::take_message(rest);
    require(message && rest.empty() && message->header.is_request());
    return true;
  }
};

[[nodiscard]] Gid gid(std::uint64_t guid) { return Gid{kDefaultGidPrefix, Guid{guid}}; }

/// The first octet says in which form the kernel asks, and which messages have a sender that may
/// say them; the rest is datagrams' messages.
void try_answers(std::uint8_t choice, ByteSpan octets) {
  Listener listener;
  const bool is_native = (choice & 1U) == 0;
  LocalService service{listener,
                       {.format = is_native ? LocalServiceOptions::Format::Attributes
                                            : LocalServiceOptions::Format::DataHeader}};
  constexpr std::uint64_t kEnds = kComponent<PathRecord, "DGID"> | kComponent<PathRecord, "SGID">;
  Instant now;
  std::vector<unsigned> ends(kPaths + 1);
  for (unsigned i = 0; i < kPaths; ++i) {
    PathRecord wanted{.dgid = gid(2 + i), .sgid = gid(1)};
    wanted.reversible = i != 0;
    const std::uint64_t mask = kEnds | (i != 0 ? kComponent<PathRecord, "Reversible"> : 0);
    const auto asked = service.ask(
        {.device = "weft0", .number = 1}, wanted, mask,
        [&ends, wanted, i](const std::optional<PathRecord>& path, Instant) {
          ++ends[i];
          require(!path || (path->dgid == wanted.dgid && path->sgid == wanted.sgid));
        },
        now);
    require(asked.has_value());
  }
  const auto asked = service.ask_address(
      1, IpAddress::v4(0x0A00'0001),
      [&ends](const std::optional<Gid>& dgid, Instant) {
        ++ends[kPaths];
        require(!dgid || !dgid->is_zero());
      },
      now);
  require(asked.has_value());
  unsigned number = 0;
  while (const auto message = wire::netlink::take_message(octets)) {
    const bool is_privileged = (choice & 2U) == 0 || number % 2 == 0;
    const std::size_t open = service.questions();
    const int said = service.receive(is_privileged, *message, now);
    require(said == 0 || said == -EPERM || said == -EINVAL);
    require(is_privileged || (said == -EPERM && service.questions() == open));
    now = now + Duration::milliseconds(number++ % 3);
  }
  require(service.deadline() <= now + Duration::seconds(200) || service.questions() == 0);
  now = now + Duration::seconds(200);
  service.handle_timeout(now);
  require(service.questions() == 0 && service.deadline() == Instant::never());
  for (const unsigned each : ends) {
    require(each == 1);
  }
}

}  // namespace
}  // namespace weft::sa

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size != 0) {
    weft::sa::try_answers(data[0], std::as_bytes(std::span{data, size}).subspan(1));
  }
  return 0;
}
