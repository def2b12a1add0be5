use serde::{Serialize, ser};

use super::{CanonicalError, Result, Writer};

/// An array that is being written; as an enum variant it stands in an object of one entry.
pub(super) struct Array<'w, 'o> {
    writer: &'w mut Writer<'o>,
    first: bool,
    in_variant: bool,
}

impl<'w, 'o> Array<'w, 'o> {
    pub(super) fn open(writer: &'w mut Writer<'o>, in_variant: bool) -> Result<Self> {
        writer.enter(b'[')?;
        Ok(Array { writer, first: true, in_variant })
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        if !self.first {
            self.writer.out.push(b',');
        }
        self.first = false;
        value.serialize(&mut *self.writer)
    }

    fn close(self) -> Result<()> {
        self.writer.leave(b']');
        if self.in_variant {
            self.writer.leave(b'}');
        }
        Ok(())
    }
}

impl ser::SerializeSeq for Array<'_, '_> {
    type Ok = ();
    type Error = CanonicalError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.item(value)
    }

    fn end(self) -> Result<()> {
        self.close()
    }
}

impl ser::SerializeTuple for Array<'_, '_> {
    type Ok = ();
    type Error = CanonicalError;

    fn serialize_element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.item(value)
    }

    fn end(self) -> Result<()> {
        self.close()
    }
}

impl ser::SerializeTupleStruct for Array<'_, '_> {
    type Ok = ();
    type Error = CanonicalError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.item(value)
    }

    fn end(self) -> Result<()> {
        self.close()
    }
}

impl ser::SerializeTupleVariant for Array<'_, '_> {
    type Ok = ();
    type Error = CanonicalError;

    fn serialize_field<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.item(value)
    }

    fn end(self) -> Result<()> {
        self.close()
    }
}
