#pragma once

// How the attributes of a netlink message of the port mapper are described: each message lists its
// own once, in the order in which they are written, and checking, reading and writing follow from
// that list.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "wire/iwpm/socket_address.h"
#include "wire/layout.h"
#include "wire/netlink/message.h"

namespace weft::wire::iwpm {

/// Versions of the messages (rdma/rdma_netlink.h, IWPM_UABI_VERSION): with 4, requests have flags.
inline constexpr std::uint16_t kAbiMin = 3;
inline constexpr std::uint16_t kAbi = 4;

enum class AttributeKind : std::uint8_t { Number, Text, Address };

/// What an attribute must be like.
struct AttributePolicy {
  std::string_view name;
  std::uint16_t number{};
  AttributeKind kind{};
  std::size_t octets{};  ///< of a number or an address; of a text: at most, with its NUL
  std::uint16_t since_abi{kAbiMin};
};

/// The attributes of one message, by number; number 0 is never used. Views of the message.
inline constexpr std::size_t kMostAttributes = 8;
using AttributeTable = std::array<std::optional<netlink::Attribute>, kMostAttributes>;

/// The seed's iwpm_validate_nlmsg_attr: fails unless every attribute from 1 to `count` - 1 is
/// there.
[[nodiscard]] Result<void> validate_attributes(const AttributeTable& table, std::size_t count);

/// The seed's iwpm_parse_nlmsg: checks each attribute against the policy, fills a table, and
/// demands every attribute that this version has. `message_type` is for the reason only. Numbers
/// beyond the policy are ignored; of several with one number the last counts.
[[nodiscard]] Result<AttributeTable> parse_attributes(ByteSpan payload,
                                                      std::span<const AttributePolicy> policy,
                                                      std::uint16_t abi,
                                                      std::string_view message_type);

namespace internal {
using wire::internal::MemberOf;
}

/// A number of two or four octets.
template <Name kName, std::uint16_t kNumber, auto kMember, std::uint16_t kSinceAbi = kAbiMin>
struct Number {
  using Type = typename internal::MemberOf<decltype(kMember)>::Type;
  static constexpr AttributePolicy kPolicy{kName.view(), kNumber, AttributeKind::Number,
                                           sizeof(Type), kSinceAbi};
  template <class Message>
  static std::size_t octets(const Message&) {
    return sizeof(Type);
  }
  template <class Message>
  static void put(const Message& from, netlink::MessageWriter& writer) {
    writer.put_number(kNumber, from.*kMember);
  }
  template <class Message>
  static void take(Message& to, const netlink::Attribute& attribute) {
    to.*kMember = attribute.number<Type>().value_or(Type{});
  }
};

/// A text of up to `kOctets` with its NUL. `kIsPadded`: always written with that many octets, as
/// Linux writes them; iwpmd copies so many, whatever the length says.
template <Name kName, std::uint16_t kNumber, std::size_t kOctets, auto kMember, bool kIsPadded>
struct Text {
  static constexpr AttributePolicy kPolicy{kName.view(), kNumber, AttributeKind::Text, kOctets,
                                           kAbiMin};
  template <class Message>
  static std::size_t octets(const Message& from) {
    return kIsPadded ? kOctets : cut(from.*kMember).size() + 1;
  }
  template <class Message>
  static void put(const Message& from, netlink::MessageWriter& writer) {
    const std::string_view text = cut(from.*kMember);
    if (!kIsPadded) {
      writer.put_text(kNumber, text);
      return;
    }
    std::array<std::byte, kOctets> padded{};
    copy_bytes(padded, std::as_bytes(std::span{text}));
    writer.put(kNumber, padded);
  }
  template <class Message>
  static void take(Message& to, const netlink::Attribute& attribute) {
    to.*kMember = std::string{attribute.text().value_or("")};
  }

 private:
  static std::string_view cut(std::string_view text) { return text.substr(0, kOctets - 1); }
};

/// A struct sockaddr_storage.
template <Name kName, std::uint16_t kNumber, auto kMember>
struct Address {
  static constexpr AttributePolicy kPolicy{kName.view(), kNumber, AttributeKind::Address,
                                           kSocketAddressBytes, kAbiMin};
  template <class Message>
  static std::size_t octets(const Message&) {
    return kSocketAddressBytes;
  }
  template <class Message>
  static void put(const Message& from, netlink::MessageWriter& writer) {
    writer.put(kNumber, pack_socket_address(from.*kMember));
  }
  template <class Message>
  static void take(Message& to, const netlink::Attribute& attribute) {
    to.*kMember = parse_socket_address(attribute.value).value_or(SocketAddress{});
  }
};

/// All attributes of a message, in the order of their numbers.
template <class... Listed>
struct Attributes {
  static constexpr std::array<AttributePolicy, sizeof...(Listed)> kPolicy{Listed::kPolicy...};

  [[nodiscard]] static constexpr bool is_sound() {
    for (std::size_t i = 0; i < kPolicy.size(); ++i) {
      if (kPolicy[i].number != i + 1) {
        return false;
      }
    }
    return kPolicy.size() < kMostAttributes;
  }
  static_assert(is_sound(), "attributes are numbered from 1 without a gap");

  template <class Message>
  [[nodiscard]] static std::size_t octets(const Message& message, std::uint16_t abi) {
    return ((Listed::kPolicy.since_abi <= abi
                 ? netlink::aligned(netlink::kAttributeHeaderBytes + Listed::octets(message))
                 : 0) +
            ... + 0);
  }
  template <class Message>
  static void put(const Message& message, std::uint16_t abi, netlink::MessageWriter& writer) {
    const auto put_one = [&]<class One>() {
      if (One::kPolicy.since_abi <= abi) {
        One::put(message, writer);
      }
    };
    (put_one.template operator()<Listed>(), ...);
  }
  template <class Message>
  static void take(Message& message, std::uint16_t abi, const AttributeTable& table) {
    const auto take_one = [&]<class One>() {
      if (One::kPolicy.since_abi <= abi) {
        One::take(message, *table[One::kPolicy.number]);
      }
    };
    (take_one.template operator()<Listed>(), ...);
  }
};

}  // namespace weft::wire::iwpm
