#include "daemon/rdma_cm/translate.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

namespace weft::daemon {
namespace {

using verbs::RdmaCmEventType;

TEST(RdmaCmTranslation, AddressesOfEveryFamilyComeBackAsTheyWere) {
  const std::array<cm::SocketAddress, 4> addresses = {
      cm::SocketAddress{},
      cm::IpEndpoint{.address = IpAddress::v4(0x7F4D'0001), .port = 7'471},
      cm::IpEndpoint{.address = IpAddress::v6(0xFE80'0000'0000'0000, 5),
                        .port = 1,
                        .scope = 2,
                        .flow_info = 3},
      cm::IbEndpoint{.gid = Gid{kDefaultGidPrefix, Guid{9}},
                        .pkey = PKey{0x8001},
                        .flow_info = 4,
                        .service_id = 0x106'1D2F,
                        .service_mask = ~std::uint64_t{0},
                        .scope = 5}
  };
  for (const cm::SocketAddress& address : addresses) {
    EXPECT_EQ(address_of(address_of(address)), address) << to_string(address);
  }
  const uabi::RdmaCmAddress four = address_of(addresses[1]);
  EXPECT_EQ(four.family, uabi::RdmaCmFamily::Ip4);
  EXPECT_EQ(four.octets[0], std::byte{127});
  EXPECT_EQ(four.octets[3], std::byte{1});
  EXPECT_EQ(four.octets[4], std::byte{0});
}

TEST(RdmaCmTranslation, FailuresAreErrnosBelowZero) {
  using enum cm::RdmaCmFailure;
  for (const auto& [failure, error] : {
           std::pair{TimedOut,           ETIMEDOUT    },
           std::pair{NetworkUnreachable, ENETUNREACH  },
           std::pair{NoSuchAddress,      EADDRNOTAVAIL},
           std::pair{NetworkDown,        ENETDOWN     },
           std::pair{HostUnreachable,    EHOSTUNREACH },
           std::pair{InvalidArgument,    EINVAL       },
           std::pair{Cancelled,          EINTR        },
           std::pair{NoSuchService,      ENOENT       }
  }) {
    const auto told =
        event_of(cm::RdmaCmEvent{.type = RdmaCmEventType::RouteError, .failure = failure});
    EXPECT_EQ(told.status, -error);
  }
  EXPECT_EQ(event_of(cm::RdmaCmEvent{.type = RdmaCmEventType::Rejected, .status = 28}).status, 28);
}

TEST(RdmaCmTranslation, EventsKeepWhatTheirConnectionSays) {
  const cm::RdmaCmEvent event{
      .type = RdmaCmEventType::ConnectRequest,
      .context = 7,
      .id = cm::RdmaCmId{3},
      .parameters = {.qpn = Qpn{0x4001}, .ece = {.vendor_id = 0x1405, .options = 1}},
      .address = {.dlid = Lid{4}}
  };
  const uabi::RdmaCmEvent told = event_of(event);
  EXPECT_EQ(told.type, RdmaCmEventType::ConnectRequest);
  EXPECT_EQ(told.uid, 7U);
  EXPECT_EQ(told.id, 3U);
  EXPECT_EQ(told.parameters, event.parameters);
  EXPECT_EQ(told.address_vector, event.address);
}

TEST(RdmaCmTranslation, ProgramsWriteTheirOwnEventsOnly) {
  for (std::uint32_t number = 0; const auto type = verbs::rdma_cm_event_of(number); ++number) {
    const auto event = event_of(
        uabi::WriteRdmaCmEvent{.id = 3, .uid = 7, .type = *type, .status = -5, .argument = 6});
    const bool is_own = *type == RdmaCmEventType::User ||
                        *type == RdmaCmEventType::AddrinfoResolved ||
                        *type == RdmaCmEventType::AddrinfoError;
    ASSERT_EQ(event.has_value(), is_own) << number;
    if (event) {
      EXPECT_EQ(event->type, *type);
      EXPECT_EQ(event->status, -5);
      EXPECT_EQ(event->argument, 6U);
    }
  }
}

TEST(RdmaCmTranslation, PortSpacesAreThoseOfLibrdmacm) {
  EXPECT_EQ(port_space_of(0x106), cm::PortSpace::Tcp);
  EXPECT_EQ(port_space_of(0x13F), cm::PortSpace::Ib);
  EXPECT_FALSE(port_space_of(0x107).has_value());
}

}  // namespace
}  // namespace weft::daemon
