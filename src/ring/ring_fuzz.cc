// A ring with a hostile other end. Checks that consumer and producer stay inside the ring whatever
// it writes.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "ring/doorbell.h"
#include "ring/spsc_ring.h"

namespace weft::ring {
namespace {

/// The ring starts with a quarter of its capacity.
constexpr std::size_t kCapacity = 4 * kMinCapacity;
alignas(64) std::array<std::byte, ring_bytes(kCapacity)> memory;

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void require_inside(std::span<const std::byte> part) {
  require(part.data() >= memory.data() + kSlotBytes + kRecordHeaderBytes &&
          part.data() + part.size() <= memory.data() + memory.size());
}

/// Reads one record; returns false if there is none.
bool consume(Consumer<>& consumer, bool pops) {
  const auto front = consumer.front();
  if (front.state == Consumer<>::State::Corrupt) {
    require(consumer.front().state == Consumer<>::State::Corrupt);
  }
  if (front.state != Consumer<>::State::Record) {
    return false;
  }
  require_inside(front.body);
  require(front.body.size() <= max_body_bytes(kCapacity));
  if (pops) {
    consumer.pop();
  }
  return true;
}

/// The input is the contents of the ring.
void read_image(std::span<const std::uint8_t> input) {
  memory.fill(std::byte{0});
  std::memcpy(memory.data(), input.data(), std::min(input.size(), memory.size()));
  Consumer<> consumer{memory, kMinCapacity};
  for (int i = 0; i < 256 && consume(consumer, true); ++i) {
  }
}

/// The input is a sequence of operations of a producer, a consumer, and a hostile writer.
void run_script(std::span<const std::uint8_t> input) {
  memory.fill(std::byte{0});
  Producer<> producer{memory, kMinCapacity};
  Consumer<> consumer{memory, kMinCapacity};
  Attention attention;
  constexpr std::size_t kStepBytes = 4;
  for (; input.size() >= kStepBytes; input = input.subspan(kStepBytes)) {
    const std::uint8_t what = input[0];
    const std::size_t number = input[1] + std::size_t{input[2]} * 256;
    switch (what & 3) {
      case 0: {  // hostile: overwrites the start of a slot, or the consumer's position
        const std::uint32_t word =
            (what & 4) != 0 ? std::uint32_t{0} - input[3] : std::uint32_t{input[3]} << (what >> 4);
        std::byte* const at = memory.data() + number * kSlotBytes % memory.size();
        std::memcpy(at, &word, sizeof word);
        break;
      }
      case 1:
        consume(consumer, (what & 4) != 0);
        break;
      case 2:
        if ((what & 8) != 0) {
          const std::size_t bytes = number % (max_body_bytes(kCapacity) + 1);
          static_cast<void>(producer.put(bytes, [&](std::byte* body) {
            require_inside({body, bytes});
            std::fill_n(body, bytes, std::byte{input[3]});
          }));
          break;
        }
        if (const auto room = producer.reserve(number % (max_body_bytes(kCapacity) + 1));
            room.data() != nullptr) {
          require_inside(room);
          std::ranges::fill(room, std::byte{input[3]});
          if ((what & 4) != 0) {
            producer.commit();
          }
        }
        break;
      default:
        static_cast<void>(producer.is_drained());
        attention.sleeping.store(input[3]);  // hostile write
        if ((what & 4) != 0) {
          announce_sleep(attention);
        } else {
          announce_awake(attention);
        }
        require(must_wake(attention) == ((what & 4) != 0));
    }
  }
}

}  // namespace
}  // namespace weft::ring

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span input{data, size};
  if (size != 0 && data[0] % 2 != 0) {
    weft::ring::run_script(input.subspan(1));
  } else {
    weft::ring::read_image(input);
  }
  return 0;
}
