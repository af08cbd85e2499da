#pragma once

// What blockd++'s server and client say to each other: an export with the REP, then requests and
// answers of fixed sizes by SEND; data by RDMA READ and WRITE of the server, to and from memory of
// the client. An example of an upper-layer protocol over src/core, of no standard.

#include <cstdint>
#include <string_view>

#include "base/keys.h"
#include "wire/layout.h"

namespace weft::blockd {

inline constexpr std::uint32_t kMagic = 0x57424C4B;    // "WBLK"
inline constexpr std::uint32_t kRequests = 16;         // policy: under way at a time
inline constexpr std::uint64_t kMostBytes = 1U << 20;  // policy: of a request
inline constexpr std::uint32_t kBlockBytes = 4'096;    // policy

/// Private data of the REP: what the server offers.
struct Export {
  static constexpr std::string_view kName = "blockd export";

  std::uint32_t magic{kMagic};
  std::uint32_t block_bytes{kBlockBytes};
  std::uint64_t blocks{};
  bool operator==(const Export&) const = default;

  // clang-format off
  using Wire = wire::Layout<16,
      wire::Field<"Magic", 32, &Export::magic>,
      wire::Field<"BlockBytes", 32, &Export::block_bytes>,
      wire::Field<"Blocks", 64, &Export::blocks>>;
  // clang-format on
};

enum class Operation : std::uint8_t { Read = 1, Write = 2 };

/// Client to server. The memory is the client's, registered for what the operation does to it.
struct Request {
  static constexpr std::string_view kName = "blockd request";

  Operation operation{};
  std::uint32_t tag{};
  std::uint64_t first_block{};
  std::uint32_t blocks{};
  RKey rkey{};
  std::uint64_t address{};
  bool operator==(const Request&) const = default;

  // clang-format off
  using Wire = wire::Layout<32,
      wire::Field<"Operation", 8, &Request::operation>,
      wire::Reserved<24>,
      wire::Field<"Tag", 32, &Request::tag>,
      wire::Field<"FirstBlock", 64, &Request::first_block>,
      wire::Field<"Blocks", 32, &Request::blocks>,
      wire::Field<"R_Key", 32, &Request::rkey>,
      wire::Field<"Address", 64, &Request::address>>;
  // clang-format on
};

enum class Status : std::uint8_t { Done = 0, OutOfRange = 1, UnknownOperation = 2 };

/// Server to client: the data are where they belong.
struct Answer {
  static constexpr std::string_view kName = "blockd answer";

  Status status{};
  std::uint32_t tag{};
  bool operator==(const Answer&) const = default;

  // clang-format off
  using Wire = wire::Layout<8,
      wire::Field<"Status", 8, &Answer::status>,
      wire::Reserved<24>,
      wire::Field<"Tag", 32, &Answer::tag>>;
  // clang-format on
};

/// What becomes of a request; foreign numbers, so the sum is taken last.
[[nodiscard]] constexpr Status check(const Request& request, std::uint64_t blocks_there) {
  if (request.operation != Operation::Read && request.operation != Operation::Write) {
    return Status::UnknownOperation;
  }
  if (request.blocks == 0 || request.blocks > kMostBytes / kBlockBytes ||
      request.first_block >= blocks_there || request.blocks > blocks_there - request.first_block) {
    return Status::OutOfRange;
  }
  return Status::Done;
}

}  // namespace weft::blockd
