#include <gtest/gtest.h>

#include "subnet/sa/path_records.h"
#include "subnet/testing/sa_lab.h"
#include "wire/mad/path_record.h"
#include "wire/mad/trace_record.h"

namespace weft::subnet {
namespace {

using wire::kComponent;
using wire::MadMethod;
using wire::PathRecord;
using wire::SaAttribute;
using wire::SaStatus;

constexpr auto kEnds = kComponent<PathRecord, "SGID"> | kComponent<PathRecord, "DLID">;

TEST(SaTraceRecords, AreTheNodesOfThePathInOrder) {
  SaLab lab;
  for (const SaAttribute attribute : {SaAttribute::TraceRecord, SaAttribute::PathRecord}) {
    const Reported reported =
        lab.ask(SaLab::kH2, MadMethod::GetTraceTable, attribute,
                wire::pack(PathRecord{.sgid = lab.gid(lab.h1), .dlid = Lid{5}}), kEnds);
    ASSERT_EQ(reported.status, 0);
    EXPECT_EQ(reported.header.header.method, MadMethod::GetTableResp);
    EXPECT_EQ(reported.header.header.attribute_id,
              static_cast<std::uint16_t>(SaAttribute::TraceRecord));
    const auto nodes = reported.records<wire::TraceRecord>();
    ASSERT_EQ(nodes.size(), 4U);
    EXPECT_EQ(nodes[0].node_id, kNodeGuid + 1);
    EXPECT_EQ(nodes[0].entry_port, PortNumber{0});
    EXPECT_EQ(nodes[0].exit_port, PortNumber{1});
    EXPECT_EQ(nodes[0].exit_port_id, kPortGuid + 1);
    EXPECT_EQ(nodes[1].node_type, wire::NodeType::Switch);
    EXPECT_EQ(nodes[1].entry_port, PortNumber{1});
    EXPECT_EQ(nodes[1].exit_port, PortNumber{4});  // the second LID takes the second cable
    EXPECT_EQ(nodes[2].entry_port, PortNumber{4});
    EXPECT_EQ(nodes[2].exit_port, PortNumber{1});
    EXPECT_EQ(nodes[3].node_id, kNodeGuid + 3);
    EXPECT_EQ(nodes[3].entry_port_id, kPortGuid + 3);
  }
}

TEST(SaTraceRecords, NeedBothEndsAndAPath) {
  SaLab lab;
  const auto status = [&](const PathRecord& wanted, std::uint64_t mask) {
    return lab
        .ask(SaLab::kH2, MadMethod::GetTraceTable, SaAttribute::TraceRecord, wire::pack(wanted),
             mask)
        .status;
  };
  const Gid g1 = lab.gid(lab.h1);
  EXPECT_EQ(status({.sgid = g1}, kComponent<PathRecord, "SGID">),
            code(SaStatus::RequestInsufficientComponents));
  EXPECT_EQ(status({.sgid = g1, .dlid = Lid{77}}, kEnds), code(SaStatus::NoRecords));
  EXPECT_EQ(status({.sgid = g1, .dlid = SaLab::kH4}, kEnds), code(SaStatus::NoRecords))
      << "no partition in common";
  EXPECT_EQ(status(
                {
                    .sgid = Gid{1, Guid{1}},
                      .dlid = Lid{5}
  },
                kEnds),
            code(SaStatus::RequestInvalidGid));
}

}  // namespace
}  // namespace weft::subnet
