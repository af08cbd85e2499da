// Arbitrary bytes as MADs in the tunnels of three functions, and as MADs from the wire: whatever
// comes, each gets a decision with a text, and the port stays sound. An input is a sequence of a
// kind octet and a buffer, which is filled up with zeros.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <tuple>

#include "base/bytes.h"
#include "sriov/multiplexer.h"

namespace weft::sriov {
namespace {

constexpr std::uint16_t kFunctions = 3;

class Game {
 public:
  explicit Game(ByteSpan input) : input_(input) {
    mux_.set_manager(Lid{9}, Lid{1});
    for (std::uint16_t i = 1; i < kFunctions; ++i) {
      std::ignore = mux_.add_function(FunctionId{i}, {.guid = Guid{0x100U + i}}, now_);
    }
  }

  void play() {
    while (!input_.empty()) {
      const auto kind = std::to_integer<unsigned>(input_.front());
      input_ = input_.subspan(1);
      if (kind % 4 == 0) {
        now_ = now_ + Duration::milliseconds(kind * 50);
        mux_.handle_timeout(now_);
      } else if (kind % 4 == 1) {
        receive(kind / 4);
      } else {
        send(FunctionId{static_cast<std::uint16_t>(kind / 4 % kFunctions)},
             kind % 4 == 2 ? SpecialQp::Gsi : SpecialQp::Smi);
      }
      drain();
      mux_.check_invariants();
    }
  }

 private:
  template <class Value>
  Value take() {
    std::array<std::byte, wire::kSizeOf<Value>> octets{};
    const std::size_t count = std::min(octets.size(), input_.size());
    std::ranges::copy(input_.first(count), octets.begin());
    input_ = input_.subspan(count);
    return wire::unpack<Value>(octets);
  }

  static void check(const Decision& decision) {
    if (to_string(decision).empty()) {
      std::abort();
    }
  }

  void send(FunctionId function, SpecialQp qp) {
    const auto send = take<wire::TunnelSend>();
    if (mux_.post_send(function, qp, mux_.proxy_qpn(function, qp), send)) {
      check(mux_.serve_tunnel(now_).value());
    }
  }

  void receive(unsigned flags) {
    const auto from = take<wire::TunnelReceive>();
    InboundMad mad{.qp = (flags & 1U) != 0 ? SpecialQp::Smi : SpecialQp::Gsi, .bytes = from.mad};
    mad.slid = (flags & 2U) != 0 ? Lid{9} : from.header.slid;
    if ((flags & 4U) != 0) {
      mad.grh = from.grh;
    }
    check(mux_.handle_wire(mad, now_));
  }

  void drain() {
    while (mux_.poll_wire(now_)) {
    }
    while (mux_.poll_event()) {
    }
    for (std::uint16_t i = 0; i < kFunctions; ++i) {
      for (const SpecialQp qp : {SpecialQp::Smi, SpecialQp::Gsi}) {
        while (mux_.poll_receive(FunctionId{i}, qp)) {
        }
      }
    }
  }

  ByteSpan input_;
  Instant now_;
  Multiplexer mux_{
      {.port_guid = Guid{0x100}, .most_functions = kFunctions, .ring_slots = 4},
      now_
  };
};

}  // namespace
}  // namespace weft::sriov

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::sriov::Game{std::as_bytes(std::span{data, size})}.play();
  return 0;
}
