// Arbitrary bytes as netlink datagrams and as a file of what is known already: each request gets
// one answer that reads as one, and no question is left when its time is over.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "resolver/preload.h"
#include "resolver/resolver.h"

namespace weft::resolver {
namespace {

class Services final : public ResolverServices {
 public:
  void send(std::uint32_t, std::vector<std::byte> datagram) override {
    ByteSpan rest = datagram;
    const auto message = wire::netlink::take_message(rest);
    if (!message || !rest.empty() || message->header.is_request()) {
      std::abort();
    }
    ++answers;
  }
  bool ask_sa(SaQuestion question, const sa::PathQuery& wanted) override {
    asked.emplace_back(question, wanted);
    return asked.size() % 5 != 0;
  }
  [[nodiscard]] Gid own_gid() const override { return Gid{kDefaultGidPrefix, Guid{1}}; }

  std::uint64_t answers{};
  std::vector<std::pair<SaQuestion, sa::PathQuery>> asked;
};

void try_netlink(ByteSpan octets) {
  Services services;
  Resolver resolver{services};
  Instant now;
  resolver.handle_datagram(0, octets, now);
  for (const auto& [question, wanted] : std::exchange(services.asked, {})) {
    if (question.value() % 2 == 0) {
      resolver.handle_path(question, wire::PathRecord{.dgid = wanted.dgid, .sgid = wanted.sgid},
                           now);
    }
  }
  resolver.invalidate();
  resolver.handle_datagram(7, octets, now);
  now = now + Duration::seconds(100);
  resolver.handle_timeout(now);
  const ResolverCounters& counted = resolver.counters();
  // Of SET_TIMEOUT and operations that there are not nothing is said.
  if (resolver.questions() != 0 || resolver.deadline() != Instant::never() ||
      services.answers > counted.requests ||
      services.answers + counted.malformed < counted.requests) {
    std::abort();
  }
}

}  // namespace
}  // namespace weft::resolver

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const weft::ByteSpan octets = std::as_bytes(std::span{data, size});
  weft::resolver::try_netlink(octets);
  // char may view any object's octets.
  const auto* const text = static_cast<const char*>(static_cast<const void*>(data));
  const auto read =
      weft::resolver::parse_preload(size == 0 ? std::string_view{} : std::string_view{text, size});
  if (!read && read.error().reason.empty()) {
    std::abort();
  }
  return 0;
}
