#pragma once

// For fuzzers whose input is a list of messages: a mutator that knows the boundaries, so that one
// message is changed, repeated, moved or replaced while the others stay unchanged. A piece is a
// head of some octets, the last of which is the length of the message that follows (or as much of
// it as there is). Value types.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"

/// Provided by libFuzzer: mutates bytes in place and returns the new size. Programs that only
/// replay inputs define one that changes nothing.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace weft::fuzz {

using Octets = std::vector<std::uint8_t>;

struct PieceFormat {
  std::size_t head_octets{2};
  std::size_t shortest{0};  // what a length of zero means
};

struct Piece {
  Octets head;  // without the length
  Octets message;
};

[[nodiscard]] inline std::vector<Piece> split(std::span<const std::uint8_t> input,
                                              const PieceFormat& format) {
  std::vector<Piece> pieces;
  while (input.size() >= format.head_octets) {
    const auto head = input.first(format.head_octets - 1);
    const std::size_t wanted = input[format.head_octets - 1] + format.shortest;
    input = input.subspan(format.head_octets);
    const auto message = input.first(std::min(wanted, input.size()));
    input = input.subspan(message.size());
    pieces.push_back({
        .head = {head.begin(),    head.end()   },
          .message = {message.begin(), message.end()}
    });
  }
  return pieces;
}

/// Concatenates as many pieces as fit; returns the number of octets.
inline std::size_t join(std::span<const Piece> pieces, std::span<std::uint8_t> out,
                        const PieceFormat& format) {
  std::size_t at = 0;
  for (const Piece& piece : pieces) {
    const std::size_t length =
        std::clamp<std::size_t>(piece.message.size(), format.shortest, 255 + format.shortest);
    if (at + format.head_octets + length > out.size()) {
      break;
    }
    std::ranges::copy(piece.head, out.begin() + static_cast<std::ptrdiff_t>(at));
    at += format.head_octets;
    out[at - 1] = static_cast<std::uint8_t>(length - format.shortest);
    const auto part = out.subspan(at, length);
    std::ranges::fill(part, std::uint8_t{0});
    std::copy_n(piece.message.begin(), std::min(length, piece.message.size()), part.begin());
    at += length;
  }
  return at;
}

/// `make(random)` is a new piece, as a friend might send it.
template <class Make>
std::size_t mutate_pieces(std::span<std::uint8_t> data, std::size_t size, unsigned seed,
                          const PieceFormat& format, Make make) {
  constexpr std::size_t kMaxMutated = 255;
  Random random{seed};
  if (random.chance(1, 4)) {
    return LLVMFuzzerMutate(data.data(), size, data.size());
  }
  std::vector<Piece> pieces = split(data.first(size), format);
  const auto any = [&] {
    return pieces.begin() + static_cast<std::ptrdiff_t>(random.below(pieces.size()));
  };
  switch (pieces.empty() ? 0 : random.below(8)) {
    case 0:
    case 1: {
      Piece made = make(random);
      pieces.insert(pieces.empty() ? pieces.end() : any() + random.below(2) % 2, std::move(made));
      break;
    }
    case 2:
      *any() = make(random);
      break;
    case 3:
      pieces.erase(any());
      break;
    case 4: {
      const Piece again = *any();
      pieces.insert(any(), again);
      break;
    }
    case 5:
      std::swap(*any(), *any());
      break;
    case 6: {
      Octets& head = any()->head;
      head[random.below(head.size())] = static_cast<std::uint8_t>(random());
      break;
    }
    default: {
      Octets& message = any()->message;
      const std::size_t before = message.size();
      message.resize(std::max(before, kMaxMutated));
      message.resize(LLVMFuzzerMutate(message.data(), before, message.size()));
      break;
    }
  }
  const std::size_t joined = join(pieces, data, format);
  return joined == 0 ? LLVMFuzzerMutate(data.data(), size, data.size()) : joined;
}

}  // namespace weft::fuzz
