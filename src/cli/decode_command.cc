// weft decode: prints the packets of a capture file.

#include <fmt/format.h>
#include <pcap/pcap.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "cli/commands.h"
#include "cli/erf_types.h"
#include "cli/terminal.h"
#include "wire/dissect.h"

namespace weft::cli {
namespace {

constexpr int kLinkTypeEthernet = 1;
constexpr int kLinkTypeErf = 197;
constexpr int kLinkTypeInfiniBand = 247;

struct DecodeOptions {
  std::string path;
  bool as_json{};
  bool summary_only{};
};

/// The packet in an ERF record, after the header and its extension headers; the top bit of each
/// type announces the next extension.
[[nodiscard]] Result<wire::Dissection> inside_erf(std::span<const std::byte> record) {
  constexpr std::size_t kHeaderBytes = 16;
  constexpr std::size_t kExtensionBytes = 8;
  constexpr std::byte kMore{0x80};
  if (record.size() < kHeaderBytes) {
    return fail(ErrorCode::Io, "an ERF record of {} bytes is too short", record.size());
  }
  const auto type = std::to_integer<std::uint8_t>(record[8] & ~kMore);
  if (type != kErfInfiniBand && type != kErfOmniPath16b) {
    return fail(ErrorCode::Io, "ERF type {} is neither InfiniBand nor Omni-Path 16B", type);
  }
  bool more = (record[8] & kMore) != std::byte{};
  std::size_t at = kHeaderBytes;
  while (more) {
    if (record.size() < at + kExtensionBytes) {
      return fail(ErrorCode::Io, "an ERF extension header is cut short");
    }
    more = (record[at] & kMore) != std::byte{};
    at += kExtensionBytes;
  }
  return type == kErfInfiniBand ? wire::dissect_infiniband(record.subspan(at))
                                : wire::dissect_opa_16b(record.subspan(at));
}

[[nodiscard]] Result<wire::Dissection> take_apart(int link_type, std::span<const std::byte> bytes) {
  if (link_type == kLinkTypeEthernet) {
    return wire::dissect_ethernet(bytes);
  }
  return link_type == kLinkTypeErf ? inside_erf(bytes) : wire::dissect_infiniband(bytes);
}

[[nodiscard]] bool is_intact(const wire::Dissection& packet) {
  return packet.icrc.is_right() && (!packet.vcrc || packet.vcrc->is_right());
}

void print_packet(std::size_t number, const wire::Dissection& packet,
                  const DecodeOptions& options) {
  if (options.as_json) {
    fmt::print("{}\n", wire::to_json(packet));
  } else if (options.summary_only) {
    fmt::print("{} {}\n", number, wire::summary(packet));
  } else {
    fmt::print("{} {}", number, wire::describe(packet));
  }
}

void print_refusal(std::size_t number, const std::string& reason, const DecodeOptions& options) {
  if (options.as_json) {
    fmt::print("{}\n",
               nlohmann::json{
                   {"number", number},
                   {"error",  reason}
    }
                   .dump());
  } else {
    fmt::print("{} {}\n", number, reason);
  }
}

int decode(const DecodeOptions& options) {
  std::array<char, PCAP_ERRBUF_SIZE> reason{};
  const std::unique_ptr<pcap_t, decltype(&pcap_close)> file{
      pcap_open_offline(options.path.c_str(), reason.data()), &pcap_close};
  if (file == nullptr) {
    return print_error({ErrorCode::Io, fmt::format("{}: {}", options.path, reason.data())});
  }
  const int link_type = pcap_datalink(file.get());
  if (link_type != kLinkTypeEthernet && link_type != kLinkTypeErf &&
      link_type != kLinkTypeInfiniBand) {
    return print_error(
        {ErrorCode::NotSupported,
         fmt::format("{}: link type {}; Ethernet (1), ERF (197) and InfiniBand (247) "
                     "can be decoded",
                     options.path, link_type)});
  }
  pcap_pkthdr* header = nullptr;
  const unsigned char* data = nullptr;
  std::size_t number = 0;
  std::size_t bad = 0;
  int status = 0;
  while ((status = pcap_next_ex(file.get(), &header, &data)) == 1) {
    ++number;
    const void* const start = data;
    const std::span bytes{static_cast<const std::byte*>(start), header->caplen};
    const auto packet = take_apart(link_type, bytes);
    if (packet) {
      bad += is_intact(*packet) ? 0 : 1;
      print_packet(number, *packet, options);
    } else {
      bad += packet.error().code == ErrorCode::NotSupported ? 0 : 1;
      print_refusal(number, packet.error().reason, options);
    }
  }
  if (status == PCAP_ERROR) {
    return print_error(
        {ErrorCode::Io, fmt::format("{}: {}", options.path, pcap_geterr(file.get()))});
  }
  if (bad != 0) {
    fmt::print(stderr, "weft: {} of {} packets are malformed or have a wrong CRC\n", bad, number);
  }
  return bad == 0 ? 0 : kFailed;
}

}  // namespace

void add_decode(CLI::App& app, Outcome& outcome) {
  auto* const command = app.add_subcommand(
      "decode",
      "Print the packets of a capture (InfiniBand or Omni-Path 16B in ERF, or RoCE v2) and check "
      "them");
  auto options = std::make_shared<DecodeOptions>();
  command->add_option("file", options->path, "A pcap file")->required();
  command->add_flag("--json", options->as_json, "One JSON object a line");
  command->add_flag("-s,--summary", options->summary_only, "One line a packet");
  command->callback([=, &outcome] { outcome.status = decode(*options); });
}

}  // namespace weft::cli
